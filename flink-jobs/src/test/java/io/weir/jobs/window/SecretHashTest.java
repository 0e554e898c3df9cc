package io.weir.jobs.window;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashSet;
import java.util.Random;
import java.util.Set;
import java.util.function.IntToLongFunction;
import org.junit.jupiter.api.Test;

/** Keys that somebody chose are spread as well as random ones. */
class SecretHashTest {
  private static final int KEYS = 100_000;
  private static final int MASK = (1 << 18) - 1;

  /** Upper half of the addresses of one /64. */
  private static final long HIGH = 0x20010db8_00000000L;

  /** The fixed hash that the tables once had, but for its first step. */
  private static int former(long h) {
    h = (h ^ h >>> 32) * 0xd6e8feb86659fd93L;
    h = (h ^ h >>> 29) * 0x9e3779b97f4a7c15L;
    return (int) (h ^ h >>> 32);
  }

  /** What {@link #former} hashes to 0; there is one for each upper half of its last product. */
  private static long colliding(int number) {
    long h = ((long) number << 32 | number) * inverseOf(0x9e3779b97f4a7c15L);
    h ^= h >>> 29 ^ h >>> 58;
    h *= inverseOf(0xd6e8feb86659fd93L);
    return h ^ h >>> 32;
  }

  private static long inverseOf(long odd) {
    long inverse = odd;
    for (int i = 0; i < 6; i++) {
      inverse *= 2 - odd * inverse;
    }
    return inverse;
  }

  /** How many slots the keys look at, all together, in an open table that they fill by 38 %. */
  private static long looks(IntToLongFunction lower) {
    boolean[] taken = new boolean[MASK + 1];
    long looks = 0;
    for (int i = 0; i < KEYS; i++) {
      int slot = SecretHash.of(HIGH, lower.applyAsLong(i)) & MASK;
      while (taken[slot]) {
        slot = slot + 1 & MASK;
        looks++;
      }
      taken[slot] = true;
      looks++;
    }
    return looks;
  }

  private static void assertCheap(String keys, IntToLongFunction lower) {
    long[] drawn = new Random(1).longs(KEYS).toArray();
    long usual = looks(i -> drawn[i]);
    long cost = looks(lower);
    assertTrue(cost < 2 * usual, keys + ": " + cost + " looks, random ones " + usual);
  }

  @Test
  void chosenKeysCostAtMostTwiceRandomOnes() {
    assertCheap("one after the other", i -> i);
    assertCheap("in steps", i -> (long) i << 20);
    assertCheap("in the upper bits", i -> (long) i << 47);
    assertCheap("reversed", i -> Long.reverse(i));
    long factor = 0x9e3779b97f4a7c15L;
    long first = HIGH * factor;
    assertCheap("of one slot of the former hash", i -> colliding(i) - first);
  }

  @Test
  void theFormerHashPutTheseIntoOneSlot() {
    Set<Integer> hashes = new HashSet<>();
    for (int i = 0; i < 1_000; i++) {
      hashes.add(former(colliding(i)));
    }
    assertEquals(Set.of(0), hashes);
  }

  @Test
  void keysOfFiveNumbersDifferInEachOfThem() {
    for (int word = 1; word <= 5; word++) {
      Set<Integer> hashes = new HashSet<>();
      for (int value = 0; value < 1_000; value++) {
        long[] key = {0, 1, 2, 3, 4, 5};
        key[word] = (long) value << 32 | value;
        hashes.add(SecretHash.ofFive(key, 1));
      }
      assertTrue(hashes.size() > 990, "number " + word + ": " + hashes.size());
    }
  }
}
