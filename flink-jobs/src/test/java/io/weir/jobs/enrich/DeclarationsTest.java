package io.weir.jobs.enrich;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.weir.jobs.enrich.Declarations.Cause;
import io.weir.proto.Prefix;
import io.weir.proto.Probe;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The declarations read from messages of the compacted topics. */
class DeclarationsTest {
  private final Declarations declarations = new Declarations();

  private static Prefix.Builder prefix(String text, int id) {
    return Prefix.newBuilder().setMajor(1).setPrefix(text).setId(id).setCustomerId(id * 10);
  }

  private void give(Prefix.Builder prefix) throws Exception {
    declarations.apply("weir.prefixes", prefix.getPrefix(), prefix.build().toByteArray());
  }

  private static int place(Prefixes prefixes, int address) {
    AddressTable table = AddressTable.of(prefixes.places());
    return table.value(table.find(address), 0);
  }

  private static int place(Prefixes prefixes, long high, long low) {
    AddressTable table = AddressTable.of(prefixes.places());
    return table.value(table.find(high, low), 0);
  }

  private void refused(Cause cause, String topic, String key, byte[] value) {
    Declarations.Refused refused =
        assertThrows(
            Declarations.Refused.class, () -> declarations.apply(topic, key, value), cause::word);
    assertEquals(cause, refused.reason);
  }

  @Test
  void theNewestValueHoldsAndAnEmptyOneRemoves() throws Exception {
    give(prefix("192.0.2.0/24", 1));
    give(prefix("192.0.2.128/25", 2));
    give(prefix("192.0.2.0/24", 3));
    Prefixes prefixes = declarations.prefixes();
    assertEquals(3, prefixes.id(place(prefixes, 0xc0000201)));
    assertEquals(20, prefixes.customer(place(prefixes, 0xc0000281)));
    declarations.apply("weir.prefixes", "192.0.2.128/25", null);
    Prefixes fewer = declarations.prefixes();
    assertEquals(3, fewer.id(place(fewer, 0xc0000281)));
    assertEquals(2, prefixes.id(place(prefixes, 0xc0000281)), "a table never changes");
    declarations.apply("weir.prefixes", "192.0.2.0/24", new byte[0]);
    assertEquals(0, declarations.prefixes().size());
  }

  @Test
  void sitesAreOneByName() throws Exception {
    give(prefix("192.0.2.0/24", 1).setSite("oslo"));
    give(prefix("2001:db8::/32", 2).setSite("oslo").setNational(true));
    give(prefix("198.51.100.0/24", 3));
    Prefixes prefixes = declarations.prefixes();
    int oslo = prefixes.siteNumber("oslo");
    assertTrue(oslo != 0);
    assertEquals(oslo, prefixes.site(place(prefixes, 0xc0000201)));
    assertEquals(oslo, prefixes.site(place(prefixes, 0x20010db8_00000000L, 1)));
    assertEquals(0, prefixes.site(place(prefixes, 0xc6336401)));
    assertEquals(0, prefixes.siteNumber("bergen"));
    assertEquals(0, prefixes.siteNumber(""));
    assertTrue(prefixes.anyNational());
    assertFalse(prefixes.national(place(prefixes, 0xc0000201)));
  }

  @Test
  void probes() throws Exception {
    Probe probe =
        Probe.newBuilder().setMajor(1).setName("alpha").setSite("oslo").setRank(3).build();
    declarations.apply("weir.probes", "alpha", probe.toByteArray());
    assertEquals(new Known.Probe("oslo", 3, false, false), declarations.probes().get("alpha"));
    declarations.apply("weir.probes", "alpha", null);
    assertTrue(declarations.probes().isEmpty());
  }

  @Test
  void whatCannotBeUnderstoodChangesNothing() throws Exception {
    give(prefix("192.0.2.0/24", 1));
    byte[] junk = "\u00ff\u00ff".getBytes(StandardCharsets.UTF_8);
    refused(Cause.MALFORMED, "weir.prefixes", "192.0.2.0/24", junk);
    byte[] newer = prefix("192.0.2.0/24", 2).setMajor(2).build().toByteArray();
    refused(Cause.MAJOR, "weir.prefixes", "192.0.2.0/24", newer);
    byte[] other = prefix("192.0.2.0/25", 2).build().toByteArray();
    refused(Cause.WRONG_KEY, "weir.prefixes", "192.0.2.0/24", other);
    byte[] probe = Probe.newBuilder().setMajor(1).setName("beta").build().toByteArray();
    refused(Cause.WRONG_KEY, "weir.probes", "alpha", probe);
    Prefixes prefixes = declarations.prefixes();
    assertEquals(1, prefixes.id(place(prefixes, 0xc0000201)));
    assertEquals(1, prefixes.size());
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        "/",
        "192.0.2.0",
        "192.0.2.0/",
        "192.0.2.0/33",
        "192.0.2/24",
        "192.0.2.256/24",
        "example.org/24",
        "2001:db8::/129",
        "::ffff:192.0.2.0/120",
        "fe80::%eth0/64",
        "a:b/16",
        "192.0.2.0/-1",
        "192.0.2.0/24/24",
        "192.0.2.0/\u0664"
      })
  void whatIsNoPrefixIsRefused(String text) {
    byte[] value = prefix(text, 1).build().toByteArray();
    refused(Cause.BAD_PREFIX, "weir.prefixes", text, value);
  }
}
