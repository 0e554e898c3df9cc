package io.weir.jobs.indicators;

import io.weir.jobs.window.Attempts;
import io.weir.jobs.window.Hosts;
import io.weir.jobs.window.Sums;
import java.util.function.IntPredicate;

/**
 * Judges first contacts: counts, for each host, the hosts that it could not reach and those that
 * answered it. A destination counts as answering if it answered any of the host's SYNs in time
 * (Jung and others, "Fast portscan detection using sequential hypothesis testing", 2004, within one
 * window).
 */
final class Contacts {
  private final Attempts attempts;
  private final HostCounts counts;
  private final Hosts hosts;

  Contacts(Attempts attempts, HostCounts counts) {
    this.attempts = attempts;
    this.counts = counts;
    hosts = counts.hosts();
  }

  /** Judges the hosts with a failed contact, and those in {@code more}. */
  void judge(IntPredicate more) {
    Sums judged = judged(more);
    if (judged.size() == 0) {
      return;
    }
    int[] last = new int[hosts.known()]; // attempt of the host + 1
    int[] previous = new int[attempts.size()];
    for (int i = 0; i < attempts.size(); i++) {
      long high = attempts.high(i, true);
      long low = attempts.low(i, true);
      if (judged.find(high, low) >= 0) {
        int host = hosts.find(high, low);
        previous[i] = last[host];
        last[host] = i + 1;
        boolean local = attempts.isLocal(i, counts.national());
        counts.belongs(host, Integer.toUnsignedLong(attempts.customer(i)), local);
      }
    }
    Sums contacts = new Sums(1);
    for (int i = 0; i < judged.size(); i++) {
      int at = i * judged.stride();
      int host = hosts.find(judged.cells()[at], judged.cells()[at + 1]);
      contacts.clear();
      for (int attempt = last[host] - 1; attempt >= 0; attempt = previous[attempt] - 1) {
        long high = attempts.high(attempt, false);
        int into = contacts.at(high, attempts.low(attempt, false)) + Sums.KEY;
        contacts.cells()[into] |= attempts.answered(attempt) ? 1 : 0;
      }
      int answered = 0;
      for (int contact = 0; contact < contacts.size(); contact++) {
        answered += (int) contacts.cells()[contact * contacts.stride() + Sums.KEY];
      }
      counts.contacts(host, (long) contacts.size() - answered, answered);
    }
  }

  private Sums judged(IntPredicate more) {
    Sums judged = new Sums(0);
    for (int i = 0; i < attempts.size(); i++) {
      if (!attempts.answered(i)) {
        judged.at(attempts.high(i, true), attempts.low(i, true));
      }
    }
    for (int host = 0; host < hosts.known(); host++) {
      if (more.test(host)) {
        judged.at(hosts.high(host), hosts.low(host));
      }
    }
    return judged;
  }
}
