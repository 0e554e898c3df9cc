package io.weir.jobs.graph;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.weir.jobs.Jobs;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.flink.util.InstantiationUtil;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class OptionsTest {
  @Test
  void theExampleOfTheHelpIsRead(@TempDir Path folder) throws Exception {
    Path file = Files.writeString(folder.resolve("writer"), "secret\n");
    String help = Options.help(Jobs.ALL);
    String example = help.substring(help.indexOf("--brokers 127.0.0.1:9092 --clickhouse"));
    String[] arguments = example.substring(0, example.indexOf('\n')).split(" ");
    Map<String, String> environment = Map.of("WEIR_PASSWORD_WRITER_FILE", file.toString());
    Options options = Options.parse(arguments, environment, Jobs.ALL);
    assertEquals("secret", options.clickhouse.password().read());
    byte[] graph = InstantiationUtil.serializeObject(options.clickhouse);
    assertFalse(new String(graph, StandardCharsets.ISO_8859_1).contains("secret"));
    assertEquals(Duration.ofSeconds(3), options.checkpointInterval);
    assertEquals(1L << 30, options.maxPending);
    assertEquals(Jobs.ALL, options.jobs);
  }

  @Test
  void everyOptionIsInTheHelp() {
    String help = Options.help(Jobs.ALL);
    for (Options.Option option : Options.all(Jobs.ALL)) {
      assertTrue(help.contains("--" + option.name() + " " + option.value()), option.name());
    }
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "--jobs nonsense",
        "--top 5",
        "--mix-window 45s",
        "--answer-timeout 30s",
        "--nonsense 1",
        "jobs=ingest",
        "--parallelism 0",
        "--parallelism two",
        "--window 45s",
        "--max-pending 1GB",
        "--checkpoint-interval 3",
        "--start now",
        "--clickhouse 127.0.0.1:8123",
        "--rest-port 65536",
        "--checkpoints"
      })
  void wrongArgumentsAreRefusedInOneLine(String line) {
    String[] arguments = ("--checkpoints=/tmp/x " + line).split(" ");
    Options.BadOption error =
        assertThrows(Options.BadOption.class, () -> Options.parse(arguments, Map.of(), Jobs.ALL));
    assertFalse(error.getMessage().contains("\n"));
    String name = line.split(" ")[0].split("=")[0];
    assertTrue(error.getMessage().contains(name), error.getMessage());
  }

  @Test
  void withoutADirectoryThereIsNoStart() {
    assertThrows(Options.BadOption.class, () -> Options.parse(new String[0], Map.of(), Jobs.ALL));
  }

  @Test
  void flinkFindsTheFolderThatWasNamedWhateverItsCharacters() {
    for (String path : List.of("/x/my weir ø/weir", "/x/100%25", "/x/a+b#c?d")) {
      assertEquals(path, new org.apache.flink.core.fs.Path(Options.uri(path)).getPath());
      assertEquals(path, new org.apache.flink.core.fs.Path(Options.uri(path + "/")).getPath());
    }
    assertEquals("s3://bucket/folder", Options.uri("s3://bucket/folder/"));
  }
}
