package io.weir.jobs.sink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.weir.jobs.Seeds;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * The sink on random schedules: whatever happens to inserts, checkpoints and processes, each row is
 * stored once, or the job refuses to continue and reports why. It prints a failing schedule, made
 * smaller; see {@link SinkRunModel}.
 */
class SinkSimulatorTest {
  @Test
  @Tag("engine")
  void everyScheduleStoresEachRowOnce() {
    Seeds.assertNoneFails(SinkSimulatorTest::failures);
  }

  @Test
  void aStateOlderThanWhatIsStoredIsRefused() throws Exception {
    String lines = "rows 9,barrier,complete,insert 0,rows 5,barrier,complete,insert 0,back 1";
    assertEquals("the state of checkpoint 1 is older", begin(refusal(lines), 34));
  }

  @Test
  void aStateWhoseFileIsGoneIsRefused() throws Exception {
    assertEquals("pending file ", begin(refusal("rows 4,barrier,complete,lose 0,crash 1"), 13));
  }

  @Test
  void othersGoOnBesideABlockThatIsRefused() throws Exception {
    assertEquals("", refusal("rows 2,barrier,complete,refuse 0,rows 9,barrier,complete"));
  }

  @Test
  void aBlockIsNotTriedAgainWhenItsTokenMayBeForgotten() throws Exception {
    String others = ",rows 2,barrier,complete,insert 0,insert 0".repeat(40);
    String refusal = refusal("rows 2,barrier,complete,insert 0 stored_then_error" + others);
    assertTrue(refusal.contains("only trusted to remember its token"), refusal);
  }

  @Test
  void whereNoCheckpointCompletesTheJobFallsAndReadsAgain() throws Exception {
    String failing = ",rows 9,barrier".repeat(40);
    String lines = "rows 4,barrier,complete,insert 0" + failing + ",rows 5,barrier,complete";
    for (int parallelism = 1; parallelism <= 3; parallelism++) {
      Path folder = Files.createTempDirectory("weir-sink");
      try (SinkRunModel run = new SinkRunModel(folder)) {
        assertEquals(List.of(), run.run(parallelism, List.of(lines.split(","))));
        assertTrue(run.fell() > 1, "fell " + run.fell() + " times");
      } finally {
        remove(folder);
      }
    }
  }

  private static String begin(String text, int length) {
    return text.substring(0, Math.min(length, text.length()));
  }

  /** Why a job with one subtask does not continue; each stored row is stored once. */
  private static String refusal(String lines) throws Exception {
    Path folder = Files.createTempDirectory("weir-sink");
    try (SinkRunModel run = new SinkRunModel(folder)) {
      assertEquals(List.of(), run.run(1, List.of(lines.split(","))));
      return run.refusal();
    } finally {
      remove(folder);
    }
  }

  private static List<String> failures(long seed) {
    List<String> lines = schedule(seed);
    int parallelism = parallelism(seed);
    List<String> found = differences(parallelism, lines);
    if (found.isEmpty()) {
      return List.of();
    }
    List<String> failed = new ArrayList<>();
    failed.add(
        "sink seed " + seed + ", " + found.size() + " at " + parallelism + ": " + found.get(0));
    failed.addAll(smaller(parallelism, lines));
    return failed;
  }

  private static int parallelism(long seed) {
    return 1 + (int) (seed % 3);
  }

  static List<String> differences(int parallelism, List<String> lines) {
    Path folder = null;
    try {
      folder = Files.createTempDirectory("weir-sink");
      try (SinkRunModel run = new SinkRunModel(folder)) {
        return run.run(parallelism, lines);
      }
    } catch (Exception e) {
      return List.of("the run fell: " + e + " at " + e.getStackTrace()[0]);
    } finally {
      remove(folder);
    }
  }

  private static void remove(Path folder) {
    if (folder == null) {
      return;
    }
    try (Stream<Path> all = Files.walk(folder)) {
      for (Path path : all.sorted(Comparator.reverseOrder()).toList()) {
        Files.deleteIfExists(path);
      }
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  /** The fewest lines, about, that still fail. */
  private static List<String> smaller(int parallelism, List<String> lines) {
    List<String> smallest = lines;
    for (int length = lines.size() / 2; length >= 1; length /= 2) {
      for (int from = 0; from < smallest.size(); ) {
        List<String> fewer = new ArrayList<>(smallest.subList(0, from));
        fewer.addAll(smallest.subList(Math.min(from + length, smallest.size()), smallest.size()));
        if (!differences(parallelism, fewer).isEmpty()) {
          smallest = fewer;
        } else {
          from += length;
        }
      }
    }
    return smallest;
  }

  private static List<String> schedule(long seed) {
    Random random = new Random(seed * 0x9E3779B97F4A7C15L);
    boolean crashes = random.nextDouble() < 0.6;
    boolean olds = random.nextDouble() < 0.15;
    boolean losses = random.nextDouble() < 0.1;
    boolean refuses = random.nextDouble() < 0.2;
    double trouble = random.nextDouble() < 0.4 ? 0 : 0.3 * random.nextDouble();
    List<String> lines = new ArrayList<>();
    // Seldom does the storage of checkpoints fail for a while.
    double completes = new Random(seed).nextInt(8) == 0 ? 0.1 : 0.8;
    boolean isLong = random.nextDouble() < 0.1;
    for (int left = 4 + random.nextInt(isLong ? 250 : 40); left > 0; left--) {
      double kind = random.nextDouble();
      if (kind < 0.25) {
        boolean many = random.nextDouble() < 0.01;
        lines.add("rows " + (many ? 3 * BlockOperator.BLOCK_ROWS : 1 + random.nextInt(30)));
      } else if (kind < 0.5) {
        lines.add("barrier");
        if (random.nextDouble() < completes) {
          lines.add(random.nextDouble() < 0.9 ? "complete" : "complete " + random.nextInt(3));
        }
      } else if (kind < 0.85) {
        for (int more = 1 + random.nextInt(4); more > 0; more--) {
          lines.add("insert " + random.nextInt(3) + fate(random, trouble));
        }
      } else if (kind < 0.92) {
        lines.add("pass " + (1 + random.nextInt(random.nextInt(5) == 0 ? 3_000 : 12)));
      } else if (crashes && kind < 0.97) {
        int down = random.nextInt(random.nextInt(3) == 0 ? 10_000 : 60);
        boolean other = random.nextInt(4) == 0;
        lines.add("crash " + down + (other ? " " + (1 + random.nextInt(3)) : ""));
      } else if (olds && kind < 0.985) {
        lines.add("back " + (1 + random.nextInt(3)));
      } else if (losses && kind < 0.995) {
        lines.add("lose " + random.nextInt(20));
      } else if (refuses) {
        lines.add("refuse " + random.nextInt(3));
      }
    }
    return lines;
  }

  private static String fate(Random random, double trouble) {
    if (random.nextDouble() >= trouble) {
      return "";
    }
    return new String[] {" stored_then_error", " busy", " away"}[random.nextInt(3)];
  }
}
