package io.weir.jobs.window;

import java.io.Serializable;
import java.time.Duration;

/**
 * A job that looks at windows.
 *
 * @param name in lower case
 * @param digester its part in the buckets
 * @param maker its part behind them
 * @param window length of its windows, a whole number of those of the buckets
 */
public record WindowJob(String name, Digester digester, RowMaker maker, Duration window)
    implements Serializable {}
