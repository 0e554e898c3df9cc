package io.weir.jobs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CheckpointsTest {
  @TempDir Path directory;

  @Test
  void theNewestCompleteOneIsFoundAndOtherRunsAreRemoved() throws IOException {
    assertEquals(Optional.empty(), Checkpoints.newest(directory));
    checkpoint("a", 90, 1_000, true);
    Path newest = checkpoint("b", 7, 2_000, true);
    checkpoint("b", 6, 2_000, true);
    Path unfinished = checkpoint("b", 8, 3_000, false);
    Files.createDirectories(directory.resolve("rows/flows"));
    assertEquals(Optional.of(newest), Checkpoints.newest(directory));
    Checkpoints.removeOthers(directory, newest);
    assertFalse(Files.exists(directory.resolve("a".repeat(32))));
    assertTrue(Files.exists(newest) && Files.exists(unfinished));
    assertTrue(Files.exists(directory.resolve("rows/flows")));
  }

  @Test
  void aSavepointIsFoundAndTheNewestIsKept() throws IOException {
    checkpoint("a", 9, 1_000, true);
    Path older = savepoint("savepoint-0123ab-0123456789ab", 500);
    Path newest = savepoint("savepoint-0123ab-ffffffffffff", 1_000);
    assertEquals(Optional.of(newest), Checkpoints.newest(directory));
    Path later = checkpoint("b", 11, 2_000, true);
    assertEquals(Optional.of(later), Checkpoints.newest(directory));
    Checkpoints.removeOthers(directory, later);
    assertFalse(Files.exists(older) || Files.exists(directory.resolve("a".repeat(32))));
    assertTrue(Files.exists(newest) && Files.exists(later));
    assertTrue(Checkpoints.isSavepoint(newest) && !Checkpoints.isSavepoint(later));
  }

  private Path savepoint(String name, long time) throws IOException {
    Path path = Files.createDirectories(directory.resolve(name));
    Path metadata = Files.writeString(path.resolve("_metadata"), "x");
    Files.setLastModifiedTime(metadata, FileTime.fromMillis(time));
    return path;
  }

  private Path checkpoint(String job, int number, long time, boolean complete) throws IOException {
    Path path = Files.createDirectories(directory.resolve(job.repeat(32)).resolve("chk-" + number));
    if (complete) {
      Path metadata = Files.writeString(path.resolve("_metadata"), "x");
      Files.setLastModifiedTime(metadata, FileTime.fromMillis(time));
    }
    return path;
  }
}
