package io.weir.jobs.enrich;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.math.BigInteger;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Longest prefix match against the plainest way to do it. */
class AddressMapTest {
  private record Prefix(byte[] address, int length, int value) {
    boolean holds(byte[] other) {
      int rest = 8 * address.length - length;
      BigInteger a = new BigInteger(1, address).shiftRight(rest);
      return other.length == address.length && a.equals(new BigInteger(1, other).shiftRight(rest));
    }
  }

  private static int naive(List<Prefix> prefixes, byte[] address) {
    int best = -1;
    int value = 0;
    for (Prefix prefix : prefixes) {
      if (prefix.length >= best && prefix.holds(address)) {
        best = prefix.length;
        value = prefix.value;
      }
    }
    return value;
  }

  private static int get(AddressMap map, byte[] address) {
    ByteBuffer buffer = ByteBuffer.wrap(address);
    return address.length == 4
        ? map.get(buffer.getInt())
        : map.get(buffer.getLong(0), buffer.getLong(8));
  }

  private static AddressMap map(List<Prefix> prefixes) throws UnknownHostException {
    AddressMap.Builder builder = new AddressMap.Builder();
    for (Prefix prefix : prefixes) {
      builder.add(InetAddress.getByAddress(prefix.address), prefix.length, prefix.value);
    }
    return builder.build();
  }

  /** Few distinct octets, so that prefixes nest and repeat; the first and last addresses too. */
  private static byte[] address(Random random, int length) {
    byte[] address = new byte[length];
    for (int i = 0; i < length; i++) {
      address[i] = new byte[] {0, 1, 127, -128, -1}[random.nextInt(5)];
    }
    if (random.nextInt(4) == 0) {
      Arrays.fill(address, random.nextInt(length), length, (byte) (random.nextBoolean() ? 0 : -1));
    }
    return address;
  }

  @ParameterizedTest
  @ValueSource(ints = {4, 16})
  void isLongestPrefixMatch(int octets) throws UnknownHostException {
    for (int seed = 0; seed < 300; seed++) {
      Random random = new Random(seed);
      List<Prefix> prefixes = new ArrayList<>();
      for (int i = random.nextInt(60); i > 0; i--) {
        int length = random.nextInt(8 * octets + 1);
        prefixes.add(new Prefix(address(random, octets), length, random.nextInt(6)));
      }
      AddressMap map = map(prefixes);
      for (int i = 0; i < 300; i++) {
        byte[] address =
            prefixes.isEmpty() || random.nextBoolean()
                ? address(random, octets)
                : edge(prefixes.get(random.nextInt(prefixes.size())), random);
        assertEquals(
            naive(prefixes, address),
            get(map, address),
            () -> prefixes + " at " + Arrays.toString(address));
      }
    }
  }

  /** The first or last address of a prefix, or one beside them. */
  private static byte[] edge(Prefix prefix, Random random) {
    int bits = 8 * prefix.address.length;
    BigInteger size = BigInteger.ONE.shiftLeft(bits - prefix.length);
    BigInteger first = new BigInteger(1, prefix.address).divide(size).multiply(size);
    BigInteger edge = random.nextBoolean() ? first : first.add(size).subtract(BigInteger.ONE);
    BigInteger at = edge.add(BigInteger.valueOf(random.nextInt(3) - 1));
    byte[] number = at.mod(BigInteger.ONE.shiftLeft(bits)).toByteArray();
    byte[] address = new byte[prefix.address.length];
    int length = Math.min(number.length, address.length);
    System.arraycopy(number, number.length - length, address, address.length - length, length);
    return address;
  }

  @Test
  void neighboursOfOneValueAreOneRange() throws UnknownHostException {
    List<Prefix> halves =
        List.of(
            new Prefix(new byte[] {10, 0, 0, 0}, 9, 7),
            new Prefix(new byte[] {10, -128, 0, 0}, 9, 7),
            new Prefix(new byte[] {10, 1, 0, 0}, 16, 7));
    // Before, 10.0.0.0/8, after; and all of IPv6.
    assertEquals(4, map(halves).ranges());
  }

  @Test
  void whatHasNoPrefixHasNoValue() {
    assertEquals(0, AddressMap.EMPTY.get(-1));
    assertEquals(0, AddressMap.EMPTY.get(-1L, -1L));
    assertEquals(0, AddressMap.EMPTY.get(0));
    assertEquals(0, AddressMap.EMPTY.get(0L, 0L));
  }
}
