package io.weir.jobs.window;

import com.google.protobuf.ByteString;
import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * Estimates of the number of distinct counterparts in overflow records, by host: HyperLogLog as
 * flow.proto defines it, 128 registers of 8 bits (Flajolet and others, 2007). Each agent and each
 * process of the jobs hashes with a key of its own: after a merge of sketches by different keys, a
 * counterpart that both saw counts twice. Rows of {@link #STRIDE} numbers: the host's address, the
 * protocol, then the registers.
 */
public final class Sketches {
  static final int REGISTERS = 128;

  /** Numbers of a row. */
  public static final int STRIDE = 3 + REGISTERS / 8;

  /** Relative standard error of an estimate: 1.04 / sqrt(128). */
  public static final double STANDARD_ERROR = 1.04 / Math.sqrt(REGISTERS);

  private Sketches() {}

  /** A row, or null if the record has no sketch of that length. */
  static long[] row(long high, long low, int protocol, ByteString sketch) {
    if (sketch.size() != REGISTERS) {
      return null;
    }
    long[] row = new long[STRIDE];
    row[0] = high;
    row[1] = low;
    row[2] = protocol;
    ByteBuffer registers = sketch.asReadOnlyByteBuffer();
    for (int i = 3; i < STRIDE; i++) {
      row[i] = registers.getLong();
    }
    return row;
  }

  /** Adds an item, by its hash, to the row at {@code at}; the top 7 bits choose the register. */
  static void insert(long[] rows, int at, long hash) {
    int register = (int) (hash >>> 57);
    int rank = Math.min(Long.numberOfLeadingZeros(hash << 7), 57) + 1;
    int number = at + 3 + register / 8;
    int shift = 56 - 8 * (register % 8);
    if ((rows[number] >>> shift & 0xff) < rank) {
      rows[number] = (rows[number] & ~(0xffL << shift)) | (long) rank << shift;
    }
  }

  /**
   * Merges the registers of two rows: the larger value of each pair. Row {@code b} goes into row
   * {@code a}.
   */
  static void merge(long[] a, int atA, long[] b, int atB) {
    for (int i = 3; i < STRIDE; i++) {
      long merged = 0;
      for (int shift = 0; shift < 64; shift += 8) {
        long larger = Math.max(a[atA + i] >>> shift & 0xff, b[atB + i] >>> shift & 0xff);
        merged |= larger << shift;
      }
      a[atA + i] = merged;
    }
  }

  /**
   * Merges the rows so that there is one for each host and protocol, in the order of first
   * occurrence.
   */
  static long[] merge(long[] rows) {
    long[] merged = new long[rows.length];
    int length = 0;
    Sums index = new Sums(1); // the protocol is put into the address's upper half: it is few bits
    for (int from = 0; from < rows.length; from += STRIDE) {
      int at = index.at(rows[from] + rows[from + 2] * 0x9e3779b97f4a7c15L, rows[from + 1]);
      long known = index.cells()[at + Sums.KEY];
      if (known == 0) {
        System.arraycopy(rows, from, merged, length, STRIDE);
        length += STRIDE;
        index.cells()[at + Sums.KEY] = length;
      } else {
        merge(merged, (int) known - STRIDE, rows, from);
      }
    }
    return Arrays.copyOf(merged, length);
  }

  /** The estimate for the row at {@code at}, with linear counting if few registers are set. */
  public static long estimate(long[] rows, int at) {
    double sum = 0;
    int empty = 0;
    for (int i = 3; i < STRIDE; i++) {
      for (int shift = 0; shift < 64; shift += 8) {
        int register = (int) (rows[at + i] >>> shift & 0xff);
        sum += Math.pow(2, -register);
        empty += register == 0 ? 1 : 0;
      }
    }
    double alpha = 0.7213 / (1 + 1.079 / REGISTERS);
    double estimate = alpha * REGISTERS * REGISTERS / sum;
    if (estimate <= 2.5 * REGISTERS && empty > 0) {
      estimate = REGISTERS * Math.log((double) REGISTERS / empty);
    }
    return Math.round(estimate);
  }
}
