package io.weir.jobs.enrich;

import io.weir.proto.Rule;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;

/**
 * All data that enriches records, as of one point in time. Immutable: each update creates a new
 * one.
 *
 * @param prefixes of {@code weir.prefixes}
 * @param probes of {@code weir.probes}, by name
 * @param rules of {@code weir.rules}, by name
 * @param systems AS numbers (unsigned) by address
 * @param countries by address: first letter * 256 + second
 * @param names of the autonomous systems
 * @param addresses the values of all of these for an address
 */
public record Known(
    Prefixes prefixes,
    Map<String, Probe> probes,
    List<Rule> rules,
    AddressMap systems,
    AddressMap countries,
    Names names,
    AddressTable addresses) {
  /** Nothing known. */
  public static final Known NOTHING =
      new Known(Prefixes.NONE, Map.of(), List.of(), AddressMap.EMPTY, AddressMap.EMPTY, Names.NONE);

  private Known(
      Prefixes prefixes,
      Map<String, Probe> probes,
      List<Rule> rules,
      AddressMap systems,
      AddressMap countries,
      Names names) {
    this(
        prefixes,
        probes,
        rules,
        systems,
        countries,
        names,
        AddressTable.of(prefixes.places(), systems, countries));
  }

  /** Index of the range that contains an IPv4 address, for the next three methods. */
  int find(int address) {
    return addresses.find(address);
  }

  /** Index of the range that contains an IPv6 address, for the next three methods. */
  int find(long high, long low) {
    return addresses.find(high, low);
  }

  /** Index in {@link #prefixes} of the longest prefix that contains the address. */
  int prefix(int found) {
    return addresses.value(found, 0);
  }

  int system(int found) {
    return addresses.value(found, 1);
  }

  int country(int found) {
    return addresses.value(found, 2);
  }

  /**
   * The declaration of a probe.
   *
   * @param site where the probe is, empty if it has none
   * @param rank among the probes that see the same flow: the lowest comes first
   * @param oneWay whether it sees only one direction of each flow
   * @param pseudonyms whether its agent makes pseudonyms
   */
  public record Probe(String site, int rank, boolean oneWay, boolean pseudonyms) {
    /** The default declaration, for probes without one. */
    public static final Probe UNKNOWN = new Probe("", 100, false, false);
  }

  /**
   * Names by number.
   *
   * @param builtAt when their file was built, seconds from 1970
   */
  public record Names(SortedMap<Integer, String> byNumber, long builtAt) {
    static final Names NONE = new Names(new TreeMap<>(), 0);
  }

  Known with(Prefixes newPrefixes, Map<String, Probe> newProbes, List<Rule> newRules) {
    return new Known(newPrefixes, newProbes, newRules, systems, countries, names);
  }

  Known withSystems(AddressMap newSystems, Names newNames) {
    return new Known(prefixes, probes, rules, newSystems, countries, newNames);
  }

  Known withCountries(AddressMap newCountries) {
    return new Known(prefixes, probes, rules, systems, newCountries, names);
  }
}
