package io.weir.jobs.message;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Random;
import java.util.TreeSet;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;

/** Ranges against a plain set of numbers. */
class RangeSetTest {
  @Test
  void agreesWithAPlainSetWhateverComes() {
    for (int seed = 0; seed < 200; seed++) {
      Random random = new Random(seed);
      RangeSet ranges = new RangeSet(1_000_000);
      TreeSet<Long> plain = new TreeSet<>();
      for (int step = 0; step < 120; step++) {
        long from = random.nextInt(200);
        switch (random.nextInt(4)) {
          case 0, 1 -> assertEquals(plain.add(from), ranges.add(from), () -> "add " + from);
          case 2 -> {
            long to = from + random.nextInt(20) - 2;
            long fresh = LongStream.rangeClosed(from, to).filter(plain::add).count();
            assertEquals(fresh, ranges.addRange(from, to));
          }
          default -> {
            if (random.nextInt(10) == 0) {
              plain.headSet(from).clear();
              ranges.removeBelow(from);
            }
          }
        }
        check(plain, ranges, random);
      }
    }
  }

  private static void check(TreeSet<Long> plain, RangeSet ranges, Random random) {
    long n = random.nextInt(220);
    assertEquals(plain.contains(n), ranges.contains(n));
    long to = n + random.nextInt(60);
    assertEquals(plain.subSet(n, true, to, true).size(), ranges.countIn(n, to));
    long[] missing =
        LongStream.rangeClosed(n, to).filter(i -> !plain.contains(i)).limit(7).toArray();
    assertArrayEquals(missing, ranges.missingIn(n, to, 7));
    long[] bounds = ranges.toArray();
    for (int i = 2; i < bounds.length; i += 2) {
      assertTrue(bounds[i] > bounds[i - 1] + 1, () -> "ranges touch: " + ranges);
    }
    assertEquals(ranges.toString(), RangeSet.of(1_000_000, bounds).toString());
    assertEquals(plain.isEmpty(), ranges.isEmpty());
    if (!plain.isEmpty()) {
      assertEquals(plain.first(), ranges.min());
      assertEquals(plain.last(), ranges.max());
    }
  }

  @Test
  void whatComesInOrderIsOneRange() {
    RangeSet ranges = new RangeSet(10);
    for (long n = 0; n < 100_000; n++) {
      assertTrue(ranges.add(n));
    }
    assertEquals(1, ranges.size());
    assertFalse(ranges.add(70_000));
  }

  @Test
  void pastItsBoundTheLowestRangeIsForgotten() {
    RangeSet ranges = new RangeSet(3);
    for (long n = 0; n < 10; n += 2) {
      ranges.add(n);
    }
    assertEquals("4,6,8", ranges.toString());
    assertEquals(2, ranges.forgotten());
    assertTrue(ranges.add(0), "forgotten counts as not seen: better twice than never");
  }
}
