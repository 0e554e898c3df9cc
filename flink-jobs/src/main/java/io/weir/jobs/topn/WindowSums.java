package io.weir.jobs.topn;

import io.weir.jobs.window.Sums;

/**
 * A scope's totals in the window.
 *
 * @param keys number of hosts, ports, AS or customers, for the lists of these
 */
record WindowSums(
    long octets, long packets, long flows, long overflowOctets, long duplicateOctets, long keys) {
  static WindowSums of(Sums totals, int scope, long keys) {
    int at = totals.at(scope, 0) + Sums.KEY;
    long[] sums = totals.cells();
    return new WindowSums(
        sums[at + TopnDigester.TOTAL_OCTETS],
        sums[at + TopnDigester.TOTAL_PACKETS],
        sums[at + TopnDigester.TOTAL_FLOWS],
        sums[at + TopnDigester.TOTAL_OVERFLOW],
        sums[at + TopnDigester.TOTAL_DUPLICATE],
        keys);
  }
}
