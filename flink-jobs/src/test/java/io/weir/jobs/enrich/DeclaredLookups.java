package io.weir.jobs.enrich;

import io.weir.jobs.message.RawMessage;
import io.weir.proto.Prefix;
import io.weir.proto.Probe;
import io.weir.proto.Rule;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.metrics.MetricGroup;

/**
 * Look-ups with the declarations of a test, and fixed autonomous systems and countries:
 * 198.51.100.0/24 is AS64500 in Norway, 203.0.113.0/24 AS64501 in Sweden, 2001:db8:1::/48
 * AS4200000000 in Norway.
 */
public final class DeclaredLookups implements Lookups {
  private static final int NORWAY = ('N' << 8) | 'O';
  private static final int SWEDEN = ('S' << 8) | 'E';

  private final Declarations declarations = new Declarations();
  private Known known;

  public DeclaredLookups() throws UnknownHostException {
    TreeMap<Integer, String> names = new TreeMap<>(Integer::compareUnsigned);
    names.putAll(Map.of(64500, "Fjord", 64501, "Skog", (int) 4_200_000_000L, "Fjell"));
    AddressMap.Builder systems = new AddressMap.Builder();
    AddressMap.Builder countries = new AddressMap.Builder();
    InetAddress[] networks = {
      InetAddress.getByName("198.51.100.0"),
      InetAddress.getByName("203.0.113.0"),
      InetAddress.getByName("2001:db8:1::")
    };
    int[] lengths = {24, 24, 48};
    int[] numbers = {64500, 64501, (int) 4_200_000_000L};
    int[] codes = {NORWAY, SWEDEN, NORWAY};
    for (int i = 0; i < networks.length; i++) {
      systems.add(networks[i], lengths[i], numbers[i]);
      countries.add(networks[i], lengths[i], codes[i]);
    }
    known =
        Known.NOTHING
            .withSystems(systems.build(), new Known.Names(names, 1_767_225_600))
            .withCountries(countries.build());
  }

  /** Whether the message is a declaration; if so, applies it from now on. */
  public boolean take(RawMessage message) throws Exception {
    String topic = message.topic();
    if (!List.of(Declarations.PREFIXES, Declarations.PROBES, Declarations.RULES).contains(topic)) {
      return false;
    }
    String key =
        switch (topic) {
          case Declarations.PREFIXES -> Prefix.parseFrom(message.value()).getPrefix();
          case Declarations.PROBES -> Probe.parseFrom(message.value()).getName();
          default -> Rule.parseFrom(message.value()).getName();
        };
    declarations.apply(topic, key, message.value());
    known = known.with(declarations.prefixes(), declarations.probes(), declarations.rules());
    return true;
  }

  public Factory factory() {
    return () -> this;
  }

  @Override
  public Known now() {
    return known;
  }

  @Override
  public void register(MetricGroup metrics) {}

  @Override
  public void close() {}
}
