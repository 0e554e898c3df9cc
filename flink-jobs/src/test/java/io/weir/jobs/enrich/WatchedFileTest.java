package io.weir.jobs.enrich;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.weir.jobs.enrich.AddressFile.Content;
import io.weir.jobs.enrich.AddressFile.Kind;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A file is read when it appears and when it has changed, but not while it changes. */
class WatchedFileTest {
  @TempDir Path folder;

  @Test
  void changesAreTakenAndBrokenFilesAreNot() throws Exception {
    Path path = folder.resolve("as.mmdb");
    List<Content> taken = new ArrayList<>();
    Refusals refusals = new Refusals();
    WatchedFile file = new WatchedFile(path, Kind.SYSTEMS, taken::add, refusals);
    file.look();
    assertEquals(1, refusals.counts().get(Refusals.BROKEN_FILE).sum(), "there is none");

    AddressFileTest.systems().write(path, 1);
    file.look();
    assertEquals(0, taken.size(), "it may still be written");
    file.look();
    file.look();
    assertEquals(1, taken.size(), "once");

    new AddressDatabase()
        .add("192.0.2.0/24", Map.of("autonomous_system_number", 64502L))
        .write(path, 2);
    file.look();
    file.look();
    assertEquals(2, taken.size());
    AddressTable table = AddressTable.of(taken.get(1).map());
    assertEquals(64502, table.value(table.find(0xc0000201), 0));

    Files.writeString(path, "broken");
    file.look();
    file.look();
    file.look();
    assertEquals(2, taken.size());
    assertEquals(2, refusals.counts().get(Refusals.BROKEN_FILE).sum(), "counted once");

    AddressFileTest.systems().write(path, 3);
    file.look();
    file.look();
    assertEquals(3, taken.get(2).names().builtAt());
  }
}
