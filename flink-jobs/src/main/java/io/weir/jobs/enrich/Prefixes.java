package io.weir.jobs.enrich;

import io.weir.proto.Prefix;
import java.net.Inet4Address;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * The declared prefixes at one point in time. The index of a prefix, which {@link #places} returns,
 * gives access to its data; index 0 stands for addresses without a prefix. Never changes.
 */
public final class Prefixes {
  private static final Pattern ADDRESS = Pattern.compile("[0-9]+(\\.[0-9]+){3}|[0-9a-fA-F:.]*:.*");
  private static final Pattern LETTERS = Pattern.compile("[0-9a-fA-F:.]+");
  private static final Pattern LENGTH = Pattern.compile("[0-9]{1,3}");

  /** No prefix at all. */
  public static final Prefixes NONE = of(java.util.List.of());

  private final AddressMap places;
  private final int[] ids;
  private final int[] customers;
  private final int[] sites;
  private final boolean[] national;
  private final Map<String, Integer> siteNumbers;
  private final boolean anyNational;

  private Prefixes(Collection<Prefix> prefixes) {
    AddressMap.Builder builder = new AddressMap.Builder();
    ids = new int[prefixes.size() + 1];
    customers = new int[ids.length];
    sites = new int[ids.length];
    national = new boolean[ids.length];
    siteNumbers = new HashMap<>();
    boolean any = false;
    int place = 0;
    for (Prefix prefix : prefixes) {
      place++;
      Block block = block(prefix.getPrefix());
      builder.add(block.address, block.length, place);
      ids[place] = prefix.getId();
      customers[place] = prefix.getCustomerId();
      if (!prefix.getSite().isEmpty()) {
        Integer number = siteNumbers.putIfAbsent(prefix.getSite(), siteNumbers.size() + 1);
        sites[place] = number == null ? siteNumbers.size() : number;
      }
      national[place] = prefix.getNational();
      any |= prefix.getNational();
    }
    anyNational = any;
    places = builder.build();
  }

  /**
   * Built from prefixes that {@link #check} accepts.
   *
   * @throws IllegalArgumentException if a text is not a prefix
   */
  static Prefixes of(Collection<Prefix> prefixes) {
    return new Prefixes(prefixes);
  }

  /** Whether the text is a prefix such as {@code 192.0.2.0/24} or {@code 2001:db8::/32}. */
  static boolean check(String text) {
    try {
      var unused = block(text);
      return true;
    } catch (IllegalArgumentException e) {
      return false;
    }
  }

  private record Block(InetAddress address, int length) {}

  private static Block block(String text) {
    int slash = text.indexOf('/');
    String address = text.substring(0, Math.max(0, slash));
    String length = text.substring(slash + 1);
    // A name is never looked up: anything but an address is refused before InetAddress sees it.
    if (!ADDRESS.matcher(address).matches()
        || !LETTERS.matcher(address).matches()
        || !LENGTH.matcher(length).matches()) {
      throw new IllegalArgumentException(text);
    }
    try {
      InetAddress parsed = InetAddress.getByName(address);
      int bits = Integer.parseInt(length);
      if (bits > (parsed instanceof Inet4Address ? 32 : 128)) {
        throw new IllegalArgumentException(text);
      }
      return new Block(parsed, bits);
    } catch (UnknownHostException e) {
      throw new IllegalArgumentException(text, e);
    }
  }

  /** Places by address. */
  AddressMap places() {
    return places;
  }

  int id(int place) {
    return ids[place];
  }

  int customer(int place) {
    return customers[place];
  }

  /** Number of the site of the prefix with this index, 0 for none; see {@link #siteNumber}. */
  int site(int place) {
    return sites[place];
  }

  boolean national(int place) {
    return national[place];
  }

  /** Number that {@link #site} gives for a site of this name, 0 if no prefix belongs to it. */
  int siteNumber(String name) {
    return siteNumbers.getOrDefault(name, 0);
  }

  /** Whether any prefix is declared national; otherwise the inside of the nation is unknown. */
  boolean anyNational() {
    return anyNational;
  }

  /** How many there are. */
  int size() {
    return ids.length - 1;
  }
}
