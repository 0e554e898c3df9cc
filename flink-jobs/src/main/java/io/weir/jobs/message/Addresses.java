package io.weir.jobs.message;

import com.google.protobuf.ByteString;

/**
 * Addresses of records as two numbers: an IPv6 address's halves, IPv4 mapped into it (RFC 4291).
 */
public final class Addresses {
  private static final long IPV4_MAPPED = 0xffffL;

  private Addresses() {}

  /** High 64 bits; 0 for IPv4 and if unknown. */
  public static long high(ByteString address) {
    return address.size() == 16 ? number(address, 0, 8) : 0;
  }

  /** Lower half; 0 if unknown. */
  public static long low(ByteString address) {
    return switch (address.size()) {
      case 4 -> IPV4_MAPPED << 32 | number(address, 0, 4);
      case 16 -> number(address, 8, 16);
      default -> 0;
    };
  }

  /** Whether the halves hold an IPv4 address, which then is in the low 32 bits. */
  public static boolean isIpv4(long high, long low) {
    return high == 0 && low >>> 32 == IPV4_MAPPED;
  }

  private static long number(ByteString address, int from, int to) {
    long number = 0;
    for (int i = from; i < to; i++) {
      number = (number << 8) | (address.byteAt(i) & 0xff);
    }
    return number;
  }
}
