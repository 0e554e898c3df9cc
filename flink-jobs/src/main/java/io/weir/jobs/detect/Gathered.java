package io.weir.jobs.detect;

import io.weir.jobs.window.Buckets;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Map;
import java.util.function.BiConsumer;

/**
 * What detectors count in the records of one interval of a probe, by subject, since the last
 * message. A group has a detector's numbers, which are added up, and up to so many items of a few
 * numbers each.
 */
final class Gathered {
  /** Numbers before a group's own: detector, kind of subject, address, and count of its own. */
  static final int HEAD = 5;

  private static final int FIRST_ITEMS = 2;

  /** What was gathered for a subject. */
  static final class Group {
    private long[] cells;
    private int size;
    private final int numbers;

    private Group(int numbers, int stride) {
      this.numbers = numbers;
      cells = new long[numbers + FIRST_ITEMS * stride];
      size = numbers;
    }

    long number(Enum<?> which) {
      return cells[which.ordinal()];
    }

    void atLeast(Enum<?> number, long value) {
      cells[number.ordinal()] = Math.max(cells[number.ordinal()], value);
    }

    void add(Enum<?> number, long by) {
      cells[number.ordinal()] += by;
    }

    /** Whether there is room for one more of at most {@code most} items of {@code stride}. */
    boolean hasRoom(int most, int stride) {
      return size + stride <= numbers + most * stride;
    }

    void item(long... of) {
      if (size + of.length > cells.length) {
        cells = Arrays.copyOf(cells, size + (size - numbers) + of.length);
      }
      System.arraycopy(of, 0, cells, size, of.length);
      size += of.length;
    }
  }

  private record Key(int detector, Subject subject) implements Comparable<Key> {
    private static final Comparator<Key> ORDER =
        Comparator.comparing(Key::subject).thenComparingInt(Key::detector);

    @Override
    public int compareTo(Key other) {
      return ORDER.compare(this, other);
    }
  }

  /** Takes a completed handshake: the address of the host that was asked, and its customer. */
  interface Handshake {
    void is(long high, long low, int customer);
  }

  private static final int HANDSHAKE = 3;

  private final Map<Key, Group> groups = new HashMap<>();
  private long[] handshakes = new long[64 * HANDSHAKE];
  private int handshakesEnd;

  /** The group of a subject, made if there is none. */
  Group of(Detector<?> detector, Subject subject) {
    return groups.computeIfAbsent(
        new Key(detector.id(), subject), key -> new Group(detector.numbers(), detector.stride()));
  }

  /** The group of a subject, null if there is none. */
  Group known(Detector<?> detector, Subject subject) {
    return groups.get(new Key(detector.id(), subject));
  }

  /** The groups of a detector. */
  void each(Detector<?> detector, BiConsumer<Subject, Group> action) {
    groups.forEach(
        (key, group) -> {
          if (key.detector == detector.id()) {
            action.accept(key.subject, group);
          }
        });
  }

  int size() {
    return groups.size() + handshakesEnd / HANDSHAKE;
  }

  /** Notes a completed handshake. */
  void handshake(long high, long low, int customer) {
    if (handshakesEnd == handshakes.length) {
      handshakes = Arrays.copyOf(handshakes, 2 * handshakesEnd);
    }
    handshakes[handshakesEnd] = high;
    handshakes[handshakesEnd + 1] = low;
    handshakes[handshakesEnd + 2] = customer;
    handshakesEnd += HANDSHAKE;
  }

  /** The completed handshakes, which are then forgotten. */
  void eachHandshake(Handshake action) {
    for (int at = 0; at < handshakesEnd; at += HANDSHAKE) {
      action.is(handshakes[at], handshakes[at + 1], (int) handshakes[at + 2]);
    }
    handshakesEnd = 0;
  }

  /** The groups of each bucket, by its number: {@link #HEAD} numbers and a group's own. */
  long[][] take() {
    int[] sizes = new int[Buckets.COUNT];
    groups.forEach((key, group) -> sizes[bucket(key.subject)] += HEAD + group.size);
    long[][] taken = new long[Buckets.COUNT][];
    for (int i = 0; i < sizes.length; i++) {
      taken[i] = new long[sizes[i]];
    }
    Arrays.fill(sizes, 0);
    groups.forEach(
        (key, group) -> {
          int bucket = bucket(key.subject);
          long[] into = taken[bucket];
          int at = sizes[bucket];
          into[at] = key.detector;
          into[at + 1] = key.subject.kind().ordinal();
          into[at + 2] = key.subject.high();
          into[at + 3] = key.subject.low();
          into[at + 4] = group.size;
          System.arraycopy(group.cells, 0, into, at + HEAD, group.size);
          sizes[bucket] += HEAD + group.size;
        });
    groups.clear();
    return taken;
  }

  private static int bucket(Subject subject) {
    return Buckets.of(subject.high(), subject.low());
  }
}
