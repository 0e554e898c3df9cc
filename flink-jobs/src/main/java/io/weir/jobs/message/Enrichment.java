package io.weir.jobs.message;

import java.io.IOException;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * The data known about both ends of each record of one batch, by the record's index in the batch. 0
 * stands for "not known" everywhere.
 */
public final class Enrichment {
  /**
   * Bits of {@link #ends}: the flags that say whether the source and the destination are at the
   * probe's site.
   */
  public static final int SRC_AT_SITE = 1;

  public static final int DST_AT_SITE = 2;

  /**
   * Bits of {@link #ends}: the flags that say whether the source and the destination are inside the
   * nation.
   */
  public static final int SRC_NATIONAL = 4;

  public static final int DST_NATIONAL = 8;

  /**
   * Bits of {@link #ends}: both ends are known, and prefixes at the probe's site, or inside the
   * nation, are declared. Without these, the bits above may be unset only because the data is
   * unknown; see {@link Direction}.
   */
  public static final int SITE_KNOWN = 16;

  public static final int NATION_KNOWN = 32;

  /** AS numbers. */
  public final int[] srcAs;

  public final int[] dstAs;

  /** Countries: the two letters of ISO 3166-1, first letter * 256 + second. */
  public final short[] srcCountry;

  public final short[] dstCountry;

  /** Ids of the prefixes that matched; names, sites and tags are looked up by them. */
  public final int[] srcPrefix;

  public final int[] dstPrefix;

  /** Ids of the customers of those prefixes. */
  public final int[] srcCustomer;

  public final int[] dstCustomer;

  /** See the bits above. */
  public final byte[] ends;

  /** Port of the record's service in its protocol's registry. */
  public final short[] service;

  /** Rank of the probe among those that see the same flow: the lower comes first. */
  public int rank;

  /** Whether the probe is declared to see only one direction of each flow. */
  public boolean oneWay;

  /** An empty enrichment for a batch with this many records. */
  public Enrichment(int records) {
    srcAs = new int[records];
    dstAs = new int[records];
    srcCountry = new short[records];
    dstCountry = new short[records];
    srcPrefix = new int[records];
    dstPrefix = new int[records];
    srcCustomer = new int[records];
    dstCustomer = new int[records];
    ends = new byte[records];
    service = new short[records];
  }

  /** Writes what {@link #read} reads. */
  public void write(DataOutputView out) throws IOException {
    out.writeInt(ends.length);
    for (int[] column : ints()) {
      for (int value : column) {
        out.writeInt(value);
      }
    }
    for (short[] column : shorts()) {
      for (short value : column) {
        out.writeShort(value);
      }
    }
    out.write(ends);
    out.writeInt(rank);
    out.writeBoolean(oneWay);
  }

  /** Reads what {@link #write} wrote. */
  public static Enrichment read(DataInputView in) throws IOException {
    Enrichment read = new Enrichment(in.readInt());
    for (int[] column : read.ints()) {
      for (int i = 0; i < column.length; i++) {
        column[i] = in.readInt();
      }
    }
    for (short[] column : read.shorts()) {
      for (int i = 0; i < column.length; i++) {
        column[i] = in.readShort();
      }
    }
    in.readFully(read.ends);
    read.rank = in.readInt();
    read.oneWay = in.readBoolean();
    return read;
  }

  private int[][] ints() {
    return new int[][] {srcAs, dstAs, srcPrefix, dstPrefix, srcCustomer, dstCustomer};
  }

  private short[][] shorts() {
    return new short[][] {srcCountry, dstCountry, service};
  }
}
