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

/** Compares longest prefix matching with a simple linear search. */
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
    return get(AddressTable.of(map), 0, address);
  }

  private static int get(AddressTable table, int map, byte[] address) {
    ByteBuffer buffer = ByteBuffer.wrap(address);
    int place =
        address.length == 4
            ? table.find(buffer.getInt())
            : table.find(buffer.getLong(0), buffer.getLong(8));
    return table.value(place, map);
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
      List<List<Prefix>> all = new ArrayList<>();
      AddressMap[] maps = new AddressMap[1 + random.nextInt(3)];
      for (int m = 0; m < maps.length; m++) {
        List<Prefix> prefixes = new ArrayList<>();
        for (int i = random.nextInt(60); i > 0; i--) {
          int length = random.nextInt(8 * octets + 1);
          prefixes.add(new Prefix(address(random, octets), length, random.nextInt(6)));
        }
        all.add(prefixes);
        maps[m] = map(prefixes);
      }
      AddressTable table = AddressTable.of(maps);
      for (int i = 0; i < 300; i++) {
        List<Prefix> near = all.get(random.nextInt(maps.length));
        byte[] address =
            near.isEmpty() || random.nextBoolean()
                ? address(random, octets)
                : edge(near.get(random.nextInt(near.size())), random);
        for (int m = 0; m < maps.length; m++) {
          List<Prefix> prefixes = all.get(m);
          assertEquals(
              naive(prefixes, address),
              get(table, m, address),
              () -> prefixes + " at " + Arrays.toString(address));
        }
      }
    }
  }

  /** The first or last address of a prefix, or a neighbour of one. */
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
    for (int value : new int[] {0, -1}) {
      byte[] address = new byte[16];
      Arrays.fill(address, (byte) value);
      assertEquals(0, get(AddressMap.EMPTY, address));
      assertEquals(0, get(AddressMap.EMPTY, Arrays.copyOf(address, 4)));
    }
  }
}
