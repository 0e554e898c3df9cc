package io.weir.jobs.window;

import java.security.SecureRandom;

/**
 * Hashes of keys that senders of packets choose, keyed by numbers that each process draws at its
 * start: nobody outside can find keys that share a slot. They serve tables in memory and sketches,
 * which may count a key again after a restart, for they differ from start to start.
 *
 * <p>Two words are multiplied after a secret number was combined with each, and the halves of the
 * product are folded into one word, as in wyhash.
 */
final class SecretHash {
  private static final long[] SECRET = new SecureRandom().longs(5).toArray();

  private static final long ODD = 0x9e3779b97f4a7c15L;

  private SecretHash() {}

  /** The hash of a key of two numbers. */
  static int of(long high, long low) {
    return last(folded(high ^ SECRET[0], low ^ SECRET[1]));
  }

  /** The same with 64 bits, each as random as the others: for {@link Sketches}. */
  static long wide(long high, long low) {
    return mixed(folded(high ^ SECRET[0], low ^ SECRET[1]));
  }

  /** The hash of the key of five numbers that begins at {@code at}. */
  static int ofFive(long[] key, int at) {
    long h = folded(key[at] ^ SECRET[0], key[at + 1] ^ SECRET[1]);
    h = folded(h ^ key[at + 2] ^ SECRET[2], key[at + 3] ^ SECRET[3]);
    return last(folded(h ^ SECRET[0], key[at + 4] ^ SECRET[4]));
  }

  private static int last(long h) {
    long end = mixed(h);
    return (int) (end ^ end >>> 32);
  }

  private static long mixed(long h) {
    return folded(h ^ SECRET[2], ODD);
  }

  private static long folded(long a, long b) {
    return a * b ^ Math.multiplyHigh(a, b);
  }
}
