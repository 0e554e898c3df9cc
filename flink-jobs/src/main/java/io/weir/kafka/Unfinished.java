package io.weir.kafka;

import java.util.HashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.memory.MemoryPool;
import org.apache.kafka.common.network.InvalidReceiveException;

/**
 * Shares the broker's memory for requests among the addresses that send them. The broker reserves
 * what a request announces, before any of it arrives. All unfinished requests of one address, or of
 * one /64 of IPv6, may hold a sixteenth of what is still free then (dynamic thresholds: Choudhury
 * and Hahne, 1998), or one message of an agent, so that something is left for the next address.
 * What exceeds its share is refused, which ends its connection.
 *
 * <p>This holds for connections to the port that the property {@value #PORT} names, for no others.
 */
public final class Unfinished {
  /** The name of a property of the JVM: the port of the probes. Without it nothing is bounded. */
  public static final String PORT = "weir.probes.port";

  private static final int PART = 16;

  /** Octets of a request with the largest message of an agent. */
  private static final long ONE = 4_250_000;

  /** Kafka's name of a connection: local address and port, remote ones, thread, number. */
  private static final Pattern CONNECTION = Pattern.compile("(.+):(\\d+)-(.+):\\d+-\\d+-\\d+");

  private static final Unfinished OF_PROBES = new Unfinished(Integer.getInteger(PORT, 0));

  private final int port;
  private final Map<String, Long> held = new HashMap<>();

  Unfinished(int port) {
    this.port = port;
  }

  /** Those of this process. */
  public static Unfinished ofProbes() {
    return OF_PROBES;
  }

  /**
   * Notes that a request begins.
   *
   * @param connection Kafka's name of it
   * @param octets that it announces
   * @return who sends it, for {@link #end}; null if it is not bounded
   * @throws InvalidReceiveException if its address holds too much already
   */
  public String begin(String connection, int octets, MemoryPool pool) {
    String sender = port == 0 ? null : sender(connection);
    if (sender == null) {
      return null;
    }
    synchronized (held) {
      long all = held.getOrDefault(sender, 0L) + octets;
      long free = pool.availableMemory();
      if (all > Math.max(free / PART, Math.min(ONE, free / 4))) {
        throw new InvalidReceiveException(
            "unfinished requests of %d octets from %s, of %d that are free"
                .formatted(all, sender, free));
      }
      held.put(sender, all);
    }
    return sender;
  }

  /** Notes that a request is complete, or that its connection has ended. */
  public void end(String sender, int octets) {
    synchronized (held) {
      held.computeIfPresent(sender, (key, all) -> all > octets ? all - octets : null);
    }
  }

  private String sender(String connection) {
    Matcher parts = CONNECTION.matcher(connection);
    if (!parts.matches() || Integer.parseInt(parts.group(2)) != port) {
      return null;
    }
    String address = parts.group(3);
    String[] groups = address.split("[:%]");
    // Java writes all eight groups of an IPv6 address.
    return groups.length < 8
        ? address
        : String.join(":", groups[0], groups[1], groups[2], groups[3]);
  }
}
