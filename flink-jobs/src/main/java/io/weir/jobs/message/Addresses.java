package io.weir.jobs.message;

import com.google.protobuf.ByteString;
import java.util.List;

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

  /** The address as text: IPv4 with dots, IPv6 as RFC 5952 has it. */
  public static String text(long high, long low) {
    if (isIpv4(high, low)) {
      return (low >>> 24 & 0xff)
          + "."
          + (low >>> 16 & 0xff)
          + "."
          + (low >>> 8 & 0xff)
          + "."
          + (low & 0xff);
    }
    String[] groups = new String[8];
    for (int i = 0; i < groups.length; i++) {
      groups[i] = Long.toHexString((i < 4 ? high : low) >>> (48 - 16 * (i % 4)) & 0xffff);
    }
    int longest = 0;
    int from = -1;
    for (int i = 0; i < groups.length; i++) {
      int end = i;
      while (end < groups.length && groups[end].equals("0")) {
        end++;
      }
      if (end - i > Math.max(longest, 1)) {
        longest = end - i;
        from = i;
      }
    }
    if (from < 0) {
      return String.join(":", groups);
    }
    List<String> all = List.of(groups);
    return String.join(":", all.subList(0, from))
        + "::"
        + String.join(":", all.subList(from + longest, groups.length));
  }

  private static long number(ByteString address, int from, int to) {
    long number = 0;
    for (int i = from; i < to; i++) {
      number = (number << 8) | (address.byteAt(i) & 0xff);
    }
    return number;
  }
}
