package io.weir.jobs.message;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * Finds the probes that have been removed: those that Kafka's lists have lacked for {@link
 * #AFTER_MS}. While no list arrives, during an outage of Kafka for example, no probe counts as
 * removed. It begins afresh with each start of the jobs, and is not part of the state.
 */
public final class Retired {
  /**
   * Longer than an agent's spool holds a message back: how long to know what was read of a probe,
   * and what is over, so that late messages count once even if it returns.
   */
  public static final long LATE_MS = 30L * 86_400_000;

  /** How long a probe counts as enrolled after Kafka last listed it. */
  public static final long AFTER_MS = 3_600_000;

  /** Probes that the newest list lacks, with the time of the first list that lacked them. */
  private final HashMap<String, Long> missing = new HashMap<>();

  /**
   * Compares the probes that a state knows with a list of Kafka's.
   *
   * @param at when the list arrived, ms from 1970
   * @return the known probes that have been removed
   */
  public List<String> among(Collection<String> known, Collection<String> listed, long at) {
    Set<String> absent = new HashSet<>(known);
    listed.forEach(absent::remove);
    missing.keySet().retainAll(absent);
    List<String> removed = new ArrayList<>();
    for (String probe : absent) {
      Long since = missing.putIfAbsent(probe, at);
      if (since != null && at - since >= AFTER_MS) {
        removed.add(probe);
      }
    }
    removed.forEach(missing::remove);
    return removed;
  }
}
