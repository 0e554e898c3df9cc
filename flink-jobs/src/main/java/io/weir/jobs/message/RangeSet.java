package io.weir.jobs.message;

import java.util.Arrays;

/**
 * A set of unsigned 64-bit numbers, kept as closed ranges in ascending order: numbers without gaps
 * form one range, however many there are. Numbers are compared as signed longs, which makes no
 * difference below 2^63, and sequences start at 0.
 *
 * <p>Bounded: beyond {@code maxRanges} the set forgets the lowest range, and its numbers count as
 * not seen.
 */
public final class RangeSet {
  private final int maxRanges;
  private long[] bounds = new long[4]; // from, to, from, to, ... inclusive
  private int ranges;
  private long forgotten;

  /** For state. */
  @SuppressWarnings("unused")
  private RangeSet() {
    this(0);
  }

  public RangeSet(int maxRanges) {
    this.maxRanges = maxRanges;
  }

  /** Adds {@code n}; returns false if it was already in the set. */
  public boolean add(long n) {
    return addRange(n, n) > 0;
  }

  /** Adds {@code from..to} (inclusive); returns how many of them were new. */
  public long addRange(long from, long to) {
    if (to < from) {
      return 0;
    }
    int first = firstEndingAtOrAfter(from == Long.MIN_VALUE ? from : from - 1);
    int last = first;
    long low = from;
    long high = to;
    long known = 0;
    while (last < ranges && (bounds[2 * last] <= to || bounds[2 * last] - 1 == to)) {
      low = Math.min(low, bounds[2 * last]);
      high = Math.max(high, bounds[2 * last + 1]);
      long overlapFrom = Math.max(from, bounds[2 * last]);
      long overlapTo = Math.min(to, bounds[2 * last + 1]);
      known += Math.max(0, overlapTo - overlapFrom + 1);
      last++;
    }
    int merged = last - first;
    if (merged == 0) {
      if (2 * ranges + 2 > bounds.length) {
        bounds = Arrays.copyOf(bounds, bounds.length * 2);
      }
      System.arraycopy(bounds, 2 * first, bounds, 2 * first + 2, 2 * (ranges - first));
      ranges++;
    } else if (merged > 1) {
      System.arraycopy(bounds, 2 * last, bounds, 2 * first + 2, 2 * (ranges - last));
      ranges -= merged - 1;
    }
    bounds[2 * first] = low;
    bounds[2 * first + 1] = high;
    if (ranges > maxRanges) {
      System.arraycopy(bounds, 2, bounds, 0, 2 * (ranges - 1));
      ranges--;
      forgotten++;
    }
    return to - from + 1 - known;
  }

  /** Adds all of {@code other}. */
  public void addAll(RangeSet other) {
    for (int i = 0; i < other.ranges; i++) {
      addRange(other.bounds[2 * i], other.bounds[2 * i + 1]);
    }
  }

  public boolean contains(long n) {
    int i = firstEndingAtOrAfter(n);
    return i < ranges && bounds[2 * i] <= n;
  }

  /** How many numbers of {@code from..to} (inclusive) are in the set. */
  public long countIn(long from, long to) {
    long count = 0;
    for (int i = firstEndingAtOrAfter(from); i < ranges && bounds[2 * i] <= to; i++) {
      count += Math.min(to, bounds[2 * i + 1]) - Math.max(from, bounds[2 * i]) + 1;
    }
    return count;
  }

  /** The first {@code limit} numbers of {@code from..to} (inclusive) that are not in the set. */
  public long[] missingIn(long from, long to, int limit) {
    long[] missing = new long[limit];
    int found = 0;
    int i = firstEndingAtOrAfter(from);
    long n = from;
    while (n <= to && found < limit) {
      if (i < ranges && bounds[2 * i] <= n) {
        n = bounds[2 * i + 1] + 1;
        i++;
      } else {
        missing[found++] = n++;
      }
    }
    return Arrays.copyOf(missing, found);
  }

  /** Forgets every number below {@code n}. */
  public void removeBelow(long n) {
    int drop = firstEndingAtOrAfter(n);
    if (drop > 0) {
      System.arraycopy(bounds, 2 * drop, bounds, 0, 2 * (ranges - drop));
      ranges -= drop;
    }
    if (ranges > 0 && bounds[0] < n) {
      bounds[0] = n;
    }
  }

  /** Adds the numbers in the lowest {@code gaps} gaps between ranges; there must be so many. */
  public void closeGaps(int gaps) {
    bounds[1] = bounds[2 * gaps + 1];
    System.arraycopy(bounds, 2 * gaps + 2, bounds, 2, 2 * (ranges - gaps - 1));
    ranges -= gaps;
  }

  /** Number of ranges. */
  public int size() {
    return ranges;
  }

  public boolean isEmpty() {
    return ranges == 0;
  }

  /** The lowest number; only if the set is not empty. */
  public long min() {
    return bounds[0];
  }

  /** The highest number; only if the set is not empty. */
  public long max() {
    return bounds[2 * ranges - 1];
  }

  /** Number of ranges forgotten because of the bound. */
  public long forgotten() {
    return forgotten;
  }

  /** The ranges as from, to, from, to, ... */
  public long[] toArray() {
    return Arrays.copyOf(bounds, 2 * ranges);
  }

  /** The set with the ranges that {@link #toArray} gave. */
  public static RangeSet of(int maxRanges, long... bounds) {
    RangeSet set = new RangeSet(maxRanges);
    for (int i = 0; i + 1 < bounds.length; i += 2) {
      set.addRange(bounds[i], bounds[i + 1]);
    }
    return set;
  }

  private int firstEndingAtOrAfter(long n) {
    int low = 0;
    int high = ranges;
    while (low < high) {
      int middle = (low + high) >>> 1;
      if (bounds[2 * middle + 1] < n) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  @Override
  public String toString() {
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < ranges; i++) {
      text.append(i == 0 ? "" : ",").append(bounds[2 * i]);
      if (bounds[2 * i + 1] != bounds[2 * i]) {
        text.append('-').append(bounds[2 * i + 1]);
      }
    }
    return text.toString();
  }
}
