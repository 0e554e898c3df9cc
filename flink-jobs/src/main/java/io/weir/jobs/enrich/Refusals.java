package io.weir.jobs.enrich;

import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Counts refused input by cause, and logs at most one refusal per cause and minute. Any thread may
 * call.
 */
final class Refusals {
  private static final Logger LOG = LoggerFactory.getLogger(Refusals.class);
  private static final long LOG_EVERY_MS = 60_000;

  /** A file that is unreadable, or of the wrong kind. */
  static final String BROKEN_FILE = "broken_file";

  /** Kafka does not answer; no input is lost, but no new declarations arrive. */
  static final String UNREACHABLE = "unreachable";

  private final Map<String, LongAdder> counts = new TreeMap<>();
  private final Map<String, Long> logged = new ConcurrentHashMap<>();

  Refusals() {
    counts.put(BROKEN_FILE, new LongAdder());
    counts.put(UNREACHABLE, new LongAdder());
    for (Declarations.Cause cause : Declarations.Cause.values()) {
      counts.put(cause.word(), new LongAdder());
    }
  }

  /** Counters by cause; the causes never change. */
  Map<String, LongAdder> counts() {
    return counts;
  }

  /** Counts a refusal, and logs it unless one of this cause was logged within the last minute. */
  void add(String cause, String format, Object... arguments) {
    counts.get(cause).increment();
    long now = System.currentTimeMillis();
    if (now - logged.getOrDefault(cause, 0L) >= LOG_EVERY_MS) {
      logged.put(cause, now);
      LOG.warn(format + " (for a minute, further ones are only counted)", arguments);
    }
  }
}
