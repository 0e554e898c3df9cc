package io.weir.jobs.window;

import java.io.Serializable;
import java.time.Duration;

/**
 * A job that processes windows.
 *
 * @param name in lower case
 * @param digester its part in the buckets
 * @param maker its part after them
 * @param window length of its windows, a whole number of the buckets' windows
 */
public record WindowJob(String name, Digester digester, RowMaker maker, Duration window)
    implements Serializable {}
