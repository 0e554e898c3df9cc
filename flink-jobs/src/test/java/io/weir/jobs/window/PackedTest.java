package io.weir.jobs.window;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** Every entry is read back unchanged. */
class PackedTest {
  private static long number(Random random, int most) {
    return switch (random.nextInt(4)) {
      case 0 -> 0;
      case 1 -> random.nextInt(4);
      case 2 -> random.nextInt(1 << 20);
      default -> random.nextLong() & -1L >>> (64 - most);
    };
  }

  private static long[] entry(Random random) {
    long[] entry = new long[FlowTable.STRIDE];
    for (int i = 0; i < entry.length; i++) {
      entry[i] = number(random, 64);
    }
    if (random.nextBoolean()) {
      entry[0] = 0;
      entry[1] = 0xffffL << 32 | random.nextInt(1 << 30);
      entry[2] = 0;
      entry[3] = 0xffffL << 32 | random.nextInt(1 << 30);
    }
    if (random.nextBoolean()) {
      for (int i = FlowTable.SYN; i <= FlowTable.RST; i++) {
        entry[i] = (long) random.nextInt(256) << 32 | random.nextInt(256);
      }
    }
    entry[FlowTable.TUPLE] =
        FlowTable.tuple(
                random.nextInt(1 << 16),
                random.nextInt(1 << 16),
                random.nextInt(256),
                random.nextInt(4))
            | random.nextInt(2);
    return entry;
  }

  @Test
  void anyEntryComesBack() {
    Random random = new Random(1);
    long[][] entries = new long[20_000][];
    Packed packed = new Packed();
    Packed other = new Packed();
    for (int i = 0; i < entries.length; i++) {
      entries[i] = entry(random);
      packed.add(entries[i], 0);
      other.addLastOf(packed);
    }
    assertEquals(entries.length, other.entries());
    for (long[] numbers : new long[][] {packed.take(), other.take()}) {
      long[] read = new long[FlowTable.STRIDE];
      int at = 0;
      for (long[] entry : entries) {
        Arrays.fill(read, -1);
        at = Packed.read(numbers, at, read);
        assertArrayEquals(entry, read);
      }
      assertEquals(numbers.length, at);
    }
  }
}
