package io.weir.jobs.window;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** With more flows than may be kept, the sums stay exact and the largest flows complete. */
class CoarseTest {
  private static final long IPV4 = 0xffffL << 32;
  private static final int LIMIT = 1000;

  private static long[] flow(long src, long dst, int port, long octets, long back) {
    long[] entry = new long[FlowTable.STRIDE];
    entry[FlowTable.SRC + 1] = IPV4 | src;
    entry[FlowTable.DST + 1] = IPV4 | dst;
    entry[FlowTable.TUPLE] = FlowTable.tuple(1024 + (int) (src % 5000), port, 6, 0);
    entry[FlowTable.FWD_OCTETS] = octets;
    entry[FlowTable.FWD_PACKETS] = 1;
    entry[FlowTable.REV_OCTETS] = back;
    entry[FlowTable.REV_PACKETS] = back > 0 ? 1 : 0;
    entry[FlowTable.SYN] = 1L << 32;
    return entry;
  }

  /** A flood to one host, a scan by another, and flows of other hosts that are larger. */
  private static List<long[]> traffic() {
    Random random = new Random(7);
    List<long[]> flows = new ArrayList<>();
    for (int i = 0; i < 30_000; i++) {
      flows.add(flow(0x20000000L + random.nextInt(1 << 28), 0x0a000001, 80, 40, 0));
      flows.add(flow(0x0a000002, 0x30000000L + i, 445, 60, 0));
    }
    for (int i = 0; i < 3000; i++) {
      flows.add(flow(0x0a000100L + i, 0x0a010000L + i % 100, 443, 1000 + i, 5000 + i));
    }
    return flows;
  }

  /** Sums that count each flow once: octets, packets, SYNs. */
  private static long[] sums(List<FlowTable> buckets) {
    long[] sums = new long[3];
    for (int bucket = 0; bucket < buckets.size(); bucket++) {
      FlowTable table = buckets.get(bucket);
      long[] cells = table.cells();
      for (int at = 0; at < table.size() * FlowTable.STRIDE; at += FlowTable.STRIDE) {
        long tuple = cells[at + FlowTable.TUPLE];
        boolean owned =
            FlowTable.overflowKey(tuple) == 0
                ? Buckets.owner(cells, at) == bucket
                : (tuple & FlowTable.ELSEWHERE) == 0;
        if (owned) {
          sums[0] += cells[at + FlowTable.FWD_OCTETS] + cells[at + FlowTable.REV_OCTETS];
          sums[1] += cells[at + FlowTable.FWD_PACKETS] + cells[at + FlowTable.REV_PACKETS];
          sums[2] += cells[at + FlowTable.SYN] >>> 32;
        }
      }
    }
    return sums;
  }

  private static List<FlowTable> buckets(List<long[]> flows) {
    List<FlowTable> buckets = new ArrayList<>();
    for (int i = 0; i < Buckets.COUNT; i++) {
      buckets.add(new FlowTable());
    }
    for (long[] flow : flows) {
      int src = Buckets.of(flow[0], flow[1]);
      int dst = Buckets.of(flow[2], flow[3]);
      buckets.get(src).add(flow, 0);
      if (dst != src) {
        buckets.get(dst).add(flow, 0);
      }
    }
    return buckets;
  }

  /** The remaining entries of a table; no two have the same key. */
  private static FlowTable kept(Coarse coarse, FlowTable table, int bucket) {
    coarse.load(table.cells(), table.size(), bucket, LIMIT);
    int entries = coarse.kept().entries();
    long[] packed = coarse.kept().take();
    FlowTable kept = new FlowTable();
    long[] entry = new long[FlowTable.STRIDE];
    for (int at = 0; at < packed.length; ) {
      at = Packed.read(packed, at, entry);
      kept.add(entry, 0);
    }
    assertEquals(entries, kept.size());
    return kept;
  }

  @Test
  void sumsStayExactAndTheLargestFlowsWhole() {
    List<FlowTable> exact = buckets(traffic());
    List<FlowTable> bounded = new ArrayList<>();
    long[] victim = new long[2];
    for (int bucket = 0; bucket < exact.size(); bucket++) {
      Coarse coarse = new Coarse();
      FlowTable kept = kept(coarse, exact.get(bucket), bucket);
      assertTrue(kept.size() <= LIMIT + 8, kept.size() + " entries in bucket " + bucket);
      bounded.add(kept);
      long[] cells = kept.cells();
      for (int at = 0; at < kept.size() * FlowTable.STRIDE; at += FlowTable.STRIDE) {
        if (cells[at + FlowTable.DST + 1] == (IPV4 | 0x0a000001)
            && Buckets.of(0, IPV4 | 0x0a000001) == bucket) {
          victim[0] += cells[at + FlowTable.FWD_PACKETS];
          victim[1] += cells[at + FlowTable.SYN] >>> 32;
        }
      }
      for (int at = 0; at < exact.get(bucket).size() * FlowTable.STRIDE; at += FlowTable.STRIDE) {
        long[] all = exact.get(bucket).cells();
        long octets = all[at + FlowTable.FWD_OCTETS] + all[at + FlowTable.REV_OCTETS];
        if (octets > coarse.largest() && exact.get(bucket).size() > LIMIT) {
          assertTrue(kept.find(all, at) >= 0, "a flow of " + octets + " octets is gone");
        }
      }
    }
    long[] before = sums(exact);
    long[] after = sums(bounded);
    for (int i = 0; i < before.length; i++) {
      assertEquals(before[i], after[i]);
    }
    assertTrue(victim[0] >= 29_990 && victim[0] == victim[1], "the victim's packets: " + victim[0]);
  }

  /** The destinations of the scanner 10.0.0.2: those kept, and the estimate of the others. */
  private static void assertSketched(List<long[]> traffic, int scanned) {
    int bucket = Buckets.of(0, IPV4 | 0x0a000002);
    FlowTable table = buckets(traffic).get(bucket);
    Coarse coarse = new Coarse();
    FlowTable left = kept(coarse, table, bucket);
    long[] rows = coarse.sketches();
    int kept = 0;
    long[] cells = left.cells();
    for (int at = 0; at < left.size() * FlowTable.STRIDE; at += FlowTable.STRIDE) {
      boolean flow = FlowTable.overflowKey(cells[at + FlowTable.TUPLE]) == 0;
      kept += flow && cells[at + FlowTable.SRC + 1] == (IPV4 | 0x0a000002) ? 1 : 0;
    }
    long estimate = 0;
    for (int at = 0; at < rows.length; at += Sketches.STRIDE) {
      estimate += rows[at + 1] == (IPV4 | 0x0a000002) ? Sketches.estimate(rows, at) : 0;
    }
    // Each run hashes with another key: one in a billion is further off.
    double error = 6 * Sketches.STANDARD_ERROR * scanned;
    assertTrue(Math.abs(kept + estimate - scanned) <= error, kept + " + " + estimate);
  }

  @Test
  void aScannersDestinationsAreSketched() {
    assertSketched(traffic(), 30_000);
  }

  @Test
  void aScannerThatChoosesItsDestinationsHidesNone() {
    List<long[]> flows = new ArrayList<>();
    for (int i = 0; i < 30_000; i++) {
      long[] flow = flow(0x0a000002, 0, 445, 60, 0);
      flow[FlowTable.DST] = i;
      // Rank 1 in the register 5: all of them together counted as one destination.
      flow[FlowTable.DST + 1] = formerly(i, 0x0bff_0000_0000_0000L);
      flows.add(flow);
    }
    assertSketched(flows, 30_000);
  }

  /** The lower half of an address whose xxHash64 with seed 0, the former hash, is {@code h}. */
  private static long formerly(long high, long h) {
    long first = 0x9e3779b185ebca87L;
    long second = 0xc2b2ae3d27d4eb4fL;
    long third = 0x165667b19e3779f9L;
    long fourth = 0x85ebca77c2b2ae63L;
    long lane = Long.rotateLeft(Long.reverseBytes(high) * second, 31) * first;
    long before =
        Long.rotateLeft(0x27d4eb2f165667c5L + 16 ^ lane, 27) * first + fourth; // of half the octets
    h ^= h >>> 32;
    h *= inverse(third);
    h ^= h >>> 29 ^ h >>> 58;
    h *= inverse(second);
    h ^= h >>> 33;
    long after = Long.rotateRight((h - fourth) * inverse(first), 27);
    long mixed = Long.rotateRight((before ^ after) * inverse(first), 31);
    return Long.reverseBytes(mixed * inverse(second));
  }

  private static long inverse(long odd) {
    long inverse = odd;
    for (int i = 0; i < 6; i++) {
      inverse *= 2 - odd * inverse;
    }
    return inverse;
  }
}
