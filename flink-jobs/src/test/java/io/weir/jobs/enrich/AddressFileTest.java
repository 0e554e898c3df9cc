package io.weir.jobs.enrich;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.weir.jobs.enrich.AddressFile.Kind;
import java.io.IOException;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The values read from files in MaxMind's format, and the files refused. */
class AddressFileTest {
  private static final long BUILT_AT = 1_767_225_600;

  @TempDir Path folder;

  private static Map<String, ?> system(long number, String name) {
    return Map.of("autonomous_system_number", number, "autonomous_system_organization", name);
  }

  static AddressDatabase systems() throws IOException {
    return new AddressDatabase()
        .add("198.51.100.0/24", system(64500, "Fjord"))
        .add("203.0.113.0/25", system(64501, "Skog"))
        .add("203.0.113.7/32", system(4_200_000_000L, "Fjell"))
        .add("2001:db8::/32", system(64500, "Fjord"));
  }

  private static int get(AddressMap map, String address) throws IOException {
    AddressTable table = AddressTable.of(map);
    ByteBuffer bytes = ByteBuffer.wrap(InetAddress.getByName(address).getAddress());
    return table.value(
        bytes.limit() == 4
            ? table.find(bytes.getInt())
            : table.find(bytes.getLong(0), bytes.getLong(8)),
        0);
  }

  @Test
  void systemsAndTheirNames() throws IOException {
    Path path = folder.resolve("as.mmdb");
    systems().write(path, BUILT_AT);
    AddressFile.Content content = AddressFile.read(path, Kind.SYSTEMS);
    assertEquals(64500, get(content.map(), "198.51.100.255"));
    assertEquals(0, get(content.map(), "198.51.101.0"));
    assertEquals(64501, get(content.map(), "203.0.113.6"));
    assertEquals((int) 4_200_000_000L, get(content.map(), "203.0.113.7"));
    assertEquals(64501, get(content.map(), "203.0.113.8"));
    assertEquals(0, get(content.map(), "203.0.113.128"));
    assertEquals(64500, get(content.map(), "2001:db8:ffff::1"));
    assertEquals(0, get(content.map(), "::1"));
    assertEquals(
        "{64500=Fjord, 64501=Skog, -94967296=Fjell}", content.names().byNumber().toString());
    assertEquals(BUILT_AT, content.names().builtAt());
  }

  @Test
  void countries() throws IOException {
    Path path = folder.resolve("country.mmdb");
    new AddressDatabase()
        .add("198.51.100.0/24", Map.of("country", Map.of("iso_code", "NO"), "continent", "x"))
        .add("203.0.113.0/24", Map.of("country", Map.of("iso_code", "Norway")))
        .add("192.0.2.0/24", Map.of("registered_country", Map.of("iso_code", "SE")))
        .write(path, BUILT_AT);
    AddressFile.Content content = AddressFile.read(path, Kind.COUNTRIES);
    assertEquals('N' * 256 + 'O', get(content.map(), "198.51.100.1"));
    assertEquals(0, get(content.map(), "203.0.113.1"), "what is no code is no country");
    assertEquals(0, get(content.map(), "192.0.2.1"), "where an address is registered is not asked");
  }

  @Test
  void whatIsNoDatabaseIsSaidInOneLine() throws IOException {
    Path path = folder.resolve("broken.mmdb");
    assertOneLine(path);
    Files.writeString(path, "not a database");
    assertOneLine(path);
    Files.write(path, new byte[0]);
    assertOneLine(path);
    byte[] whole = systems().bytes(BUILT_AT);
    Files.write(path, Arrays.copyOf(whole, whole.length / 2));
    assertOneLine(path);
  }

  private static void assertOneLine(Path path) {
    IOException error = assertThrows(IOException.class, () -> AddressFile.read(path, Kind.SYSTEMS));
    assertFalse(error.getMessage().contains("\n"), error.getMessage());
  }

  /** A damaged file is refused or read, but never stops the thread. */
  @Test
  void randomDamageIsRefusedOrRead() throws IOException {
    byte[] whole = systems().bytes(BUILT_AT);
    Path path = folder.resolve("damaged.mmdb");
    Random random = new Random(1);
    int refused = 0;
    for (int i = 0; i < 500; i++) {
      byte[] damaged = whole.clone();
      for (int n = 1 + random.nextInt(4); n > 0; n--) {
        damaged[random.nextInt(damaged.length)] = (byte) random.nextInt();
      }
      Files.write(path, damaged);
      try {
        var unused = AddressFile.read(path, Kind.SYSTEMS);
      } catch (IOException e) {
        refused++;
      }
    }
    assertFalse(refused == 0, "some damage is noticed");
  }
}
