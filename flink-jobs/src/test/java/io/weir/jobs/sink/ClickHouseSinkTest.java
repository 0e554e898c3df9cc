package io.weir.jobs.sink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.weir.jobs.sink.FakeClickHouse.Fate;
import io.weir.jobs.table.Table;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.core.fs.CloseableRegistry;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.state.DefaultOperatorStateBackendBuilder;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.tasks.mailbox.Mail;
import org.apache.flink.streaming.util.AbstractStreamOperatorTestHarness;
import org.apache.flink.streaming.util.OneInputStreamOperatorTestHarness;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/** The sink's operator alone: its actions at each step of a checkpoint. */
@Timeout(60)
@Execution(ExecutionMode.SAME_THREAD)
class ClickHouseSinkTest {
  private static final Duration WEEK = Duration.ofDays(7);

  @TempDir Path directory;

  /** The operator's state at its first checkpoint, after this many blocks. */
  private static OperatorSubtaskState afterBlocks(
      int blocks, OneInputStreamOperatorTestHarness<NativeBlock, Void> harness) throws Exception {
    harness.open();
    for (int block = 1; block <= blocks; block++) {
      harness.processElement(new StreamRecord<>(block(block)));
    }
    return harness.snapshot(1, 0);
  }

  private OperatorSubtaskState stoppedAfterOneBlock(FakeClickHouse clickhouse) throws Exception {
    try (var harness = harness(clickhouse, 1 << 20, WEEK)) {
      return afterBlocks(1, harness);
    }
  }

  private OneInputStreamOperatorTestHarness<NativeBlock, Void> harness(
      FakeClickHouse clickhouse, long maxPending, Duration retryFor) throws Exception {
    return harness(clickhouse, maxPending, retryFor, 1, 0);
  }

  private OneInputStreamOperatorTestHarness<NativeBlock, Void> harness(
      FakeClickHouse clickhouse, long maxPending, Duration retryFor, int parallelism, int subtask)
      throws Exception {
    ClickHouse.Endpoint endpoint =
        new ClickHouse.Endpoint(clickhouse.url(), "weir", "writer", () -> "secret");
    return new OneInputStreamOperatorTestHarness<>(
        new ClickHouseSink(
            new ClickHouseSink.Config(
                endpoint,
                directory.toUri().toString(),
                maxPending,
                retryFor,
                ClickHouseSink.REMEMBERED)),
        128,
        parallelism,
        subtask);
  }

  private static NativeBlock block(long packets) {
    return block(packets, 202601);
  }

  private static NativeBlock block(long packets, int partition) {
    BlockBuilder builder = new BlockBuilder(Table.COUNTERS);
    builder.addRow();
    builder.set(0, 1_767_225_600L);
    builder.set(Table.COUNTERS.index("packets"), packets);
    return builder.build(partition);
  }

  /** Runs the next {@code mails} mails of the operator's mailbox. */
  private static void drain(OneInputStreamOperatorTestHarness<NativeBlock, Void> harness, int mails)
      throws Exception {
    for (int i = 0; i < mails; i++) {
      Mail mail = harness.getTaskMailbox().take(0);
      mail.run();
    }
  }

  private List<Path> files() throws Exception {
    try (Stream<Path> files = Files.list(directory)) {
      return files.filter(Files::isRegularFile).toList();
    }
  }

  @Test
  void rowsOfManyPartitionsDoNotHoldAsManyFilesOpen() throws Exception {
    int partitions = ClickHouseSinkOperator.MAX_OPEN + 1;
    try (FakeClickHouse clickhouse = new FakeClickHouse(n -> Fate.STORED);
        var harness = harness(clickhouse, 1 << 20, WEEK)) {
      harness.open();
      for (int i = 0; i < partitions; i++) {
        harness.processElement(new StreamRecord<>(block(i, 20260101 + i)));
      }
      int written = 0;
      for (Path file : files()) {
        written += Files.size(file) > 0 ? 1 : 0;
      }
      assertEquals(ClickHouseSinkOperator.MAX_OPEN, written, "the others are closed");
      harness.snapshot(1, 0);
      harness.notifyOfCompletedCheckpoint(1);
      drain(harness, partitions);
      assertEquals(partitions, clickhouse.rows().size());
      assertEquals("", clickhouse.problem());
    }
  }

  @Test
  void rowsAreInsertedWhenTheirCheckpointIsCompleteAndNotBefore() throws Exception {
    try (FakeClickHouse clickhouse = new FakeClickHouse(n -> Fate.STORED);
        var harness = harness(clickhouse, 1 << 20, WEEK)) {
      afterBlocks(2, harness);
      harness.processElement(new StreamRecord<>(block(3)));
      assertEquals(List.of(), clickhouse.posts());
      harness.notifyOfCompletedCheckpoint(1);
      drain(harness, 1);
      assertEquals(2, clickhouse.rows().size(), "one file, the rows of the checkpoint");
      assertEquals(2, files().size(), "the file stays until a later checkpoint does without it");
      harness.snapshot(2, 0);
      harness.notifyOfCompletedCheckpoint(2);
      drain(harness, 1);
      assertEquals(3, clickhouse.rows().size());
      assertEquals(1, files().size());
      assertEquals(2, new HashSet<>(clickhouse.posts()).size());
      assertEquals("", clickhouse.problem());
    }
  }

  @Test
  void afterAFailureTheSameRowsComeUnderTheSameTokenAndNewOnesUnderOthers() throws Exception {
    try (FakeClickHouse clickhouse = new FakeClickHouse(n -> Fate.STORED)) {
      OperatorSubtaskState state;
      try (var harness = harness(clickhouse, 1 << 20, WEEK)) {
        state = afterBlocks(1, harness);
        harness.notifyOfCompletedCheckpoint(1);
        drain(harness, 1); // stored, and then the process dies
      }
      try (var harness = harness(clickhouse, 1 << 20, WEEK)) {
        harness.initializeState(state);
        harness.open();
        drain(harness, 1);
        harness.processElement(new StreamRecord<>(block(2)));
        harness.snapshot(2, 0);
        harness.notifyOfCompletedCheckpoint(2);
        drain(harness, 1);
      }
      List<String> posts = clickhouse.posts();
      assertEquals(3, posts.size());
      assertEquals(posts.get(0), posts.get(1));
      assertFalse(posts.get(0).equals(posts.get(2)));
      assertEquals(1, clickhouse.repeats());
      assertEquals(2, clickhouse.rows().size());
    }
  }

  @Test
  void subtasksThatAreGivenTheFilesInDifferentOrdersStillInsertAllOfThem() throws Exception {
    try (FakeClickHouse clickhouse = new FakeClickHouse(n -> Fate.STORED)) {
      List<OperatorSubtaskState> states = new ArrayList<>();
      for (int subtask = 0; subtask < 2; subtask++) {
        try (var harness = harness(clickhouse, 1 << 20, WEEK, 2, subtask)) {
          harness.open();
          harness.processElement(new StreamRecord<>(block(subtask + 1)));
          states.add(harness.snapshot(1, 0)); // complete, and the process dies before an insert
        }
      }
      for (int subtask = 0; subtask < 2; subtask++) {
        OperatorSubtaskState all =
            AbstractStreamOperatorTestHarness.repackageState(
                states.get(subtask), states.get(1 - subtask));
        try (var harness = harness(clickhouse, 1 << 20, WEEK, 2, subtask)) {
          harness.initializeState(all);
          harness.open();
          drain(harness, 1);
        }
      }
      assertEquals(0, clickhouse.repeats());
      assertEquals(
          Set.of("1", "2"),
          clickhouse.rows().stream().map(row -> row.get("packets")).collect(Collectors.toSet()));
    }
  }

  @Test
  void goingBackToAnOlderStateNeverUsesATokenForOtherRows() throws Exception {
    try (FakeClickHouse clickhouse = new FakeClickHouse(n -> Fate.STORED)) {
      for (int run = 0; run < 3; run++) {
        try (var harness = harness(clickhouse, 1 << 20, WEEK)) {
          harness.open(); // without state each time, as by --resume none
          harness.processElement(new StreamRecord<>(block(run)));
          harness.snapshot(1, 0);
          harness.notifyOfCompletedCheckpoint(1);
          drain(harness, 1);
        }
      }
      assertEquals(3, clickhouse.rows().size());
      assertEquals(0, clickhouse.repeats());
    }
  }

  @Test
  void anInsertIsTriedAgainUntilItIsAcknowledged() throws Exception {
    Fate[] fates = {Fate.BUSY, Fate.STORED_THEN_ERROR, Fate.STORED_THEN_CUT, Fate.STORED};
    try (FakeClickHouse clickhouse = new FakeClickHouse(n -> fates[Math.min(n, 3)]);
        var harness = harness(clickhouse, 1 << 20, WEEK)) {
      afterBlocks(1, harness);
      harness.notifyOfCompletedCheckpoint(1);
      drain(harness, 2); // that it is uncertain, that it is stored
      assertEquals(4, clickhouse.posts().size());
      assertEquals(Set.of(clickhouse.posts().get(0)), new HashSet<>(clickhouse.posts()));
      assertEquals(1, clickhouse.rows().size());
    }
  }

  /** The error with which the job fails once this many blocks are inserted. */
  private Exception failure(int blocks, FakeClickHouse clickhouse) throws Exception {
    try (var harness = harness(clickhouse, 1 << 20, WEEK)) {
      afterBlocks(blocks, harness);
      harness.notifyOfCompletedCheckpoint(1);
      return assertThrows(Exception.class, () -> drain(harness, 1));
    }
  }

  @Test
  void whatNoRetryCuresFailsTheJob() throws Exception {
    try (FakeClickHouse clickhouse = new FakeClickHouse(n -> Fate.NO_TABLE)) {
      Exception failure = failure(1, clickhouse);
      assertTrue(
          failure.toString().contains("no such table")
              || failure.getCause().getMessage().contains("no such table"),
          failure.toString());
      assertEquals(1, clickhouse.posts().size());
    }
  }

  @Test
  void aBlockOfWhichClickHouseTookFewerRowsFailsTheJob() throws Exception {
    try (FakeClickHouse clickhouse = new FakeClickHouse(n -> Fate.ONE_ROW_LESS)) {
      Exception failure = failure(2, clickhouse);
      assertTrue(failure.getCause().getMessage().contains("took 1 of 2 rows"), "" + failure);
    }
  }

  @Test
  void aTokenThatMayBeForgottenIsNotTriedAgain() throws Exception {
    try (FakeClickHouse clickhouse = new FakeClickHouse(n -> Fate.STORED)) {
      OperatorSubtaskState state = stoppedAfterOneBlock(clickhouse);
      Thread.sleep(5);
      try (var harness = harness(clickhouse, 1 << 20, Duration.ofMillis(1))) {
        harness.initializeState(state);
        harness.open();
        Exception failure = assertThrows(Exception.class, () -> drain(harness, 1));
        assertTrue(failure.getCause().getMessage().contains("--retry-for"), failure.toString());
      }
      assertEquals(List.of(), clickhouse.posts());
    }
  }

  /** Inserts the blocks that the state of a stopped job lists, as a backup does. */
  private int left(FakeClickHouse clickhouse, OperatorSubtaskState state, Duration retryFor)
      throws Exception {
    LeftBlocks left =
        new LeftBlocks(
            new ClickHouse(
                new ClickHouse.Endpoint(clickhouse.url(), "weir", "writer", () -> "secret")),
            retryFor.toMillis(),
            5_000);
    try (var backend =
        new DefaultOperatorStateBackendBuilder(
                getClass().getClassLoader(),
                new ExecutionConfig(),
                false,
                state.getManagedOperatorState(),
                new CloseableRegistry())
            .build()) {
      return left.insert(
          backend, new org.apache.flink.core.fs.Path(directory.resolve("rows").toUri()));
    }
  }

  @Test
  void blocksOfAStoppedJobAreInsertedUnderTheTokensOfTheirNextStart() throws Exception {
    Fate[] fates = {Fate.BUSY, Fate.STORED_THEN_CUT, Fate.STORED};
    try (FakeClickHouse clickhouse = new FakeClickHouse(n -> fates[Math.min(n, 2)])) {
      OperatorSubtaskState state = stoppedAfterOneBlock(clickhouse);
      assertEquals(1, left(clickhouse, state, WEEK));
      assertEquals(1, clickhouse.rows().size());
      try (var harness = harness(clickhouse, 1 << 20, WEEK)) {
        harness.initializeState(state);
        harness.open();
        drain(harness, 1);
      }
      assertEquals(4, clickhouse.posts().size());
      assertEquals(1, new HashSet<>(clickhouse.posts()).size());
      assertEquals(1, clickhouse.rows().size());
    }
  }

  @Test
  void blocksThatClickHouseMayHaveForgottenAreNotInsertedForABackup() throws Exception {
    try (FakeClickHouse clickhouse = new FakeClickHouse(n -> Fate.STORED)) {
      OperatorSubtaskState state = stoppedAfterOneBlock(clickhouse);
      Thread.sleep(5);
      Exception failure =
          assertThrows(IOException.class, () -> left(clickhouse, state, Duration.ofMillis(1)));
      assertTrue(failure.getMessage().contains("may have forgotten it"), failure.toString());
      assertEquals(List.of(), clickhouse.posts());
    }
  }

  @Test
  void aStateOlderThanTheStoredRowsIsNoneForABackup() throws Exception {
    try (FakeClickHouse clickhouse = new FakeClickHouse(n -> Fate.STORED)) {
      List<OperatorSubtaskState> states = new ArrayList<>();
      try (var harness = harness(clickhouse, 1 << 20, WEEK)) {
        harness.open();
        for (long id = 1; id <= 2; id++) {
          states.add(unfinished(id, harness));
          harness.notifyOfCompletedCheckpoint(id);
        }
        drain(harness, 2);
      }
      Path marks = Files.createDirectories(directory.resolve("rows/counters/inserted"));
      try (Stream<Path> found = Files.list(directory.resolve("inserted"))) {
        for (Path mark : found.toList()) {
          Files.copy(mark, marks.resolve(mark.getFileName()));
        }
      }
      Exception failure =
          assertThrows(IOException.class, () -> left(clickhouse, states.get(0), WEEK));
      assertTrue(failure.getMessage().contains("hold rows of checkpoint 2"), failure.toString());
      assertEquals(2, clickhouse.posts().size());
    }
  }

  @Test
  void aFileThatTheStorageChangedIsNotInserted() throws Exception {
    try (FakeClickHouse clickhouse = new FakeClickHouse(n -> Fate.STORED);
        var harness = harness(clickhouse, 1 << 20, WEEK)) {
      afterBlocks(1, harness);
      File file = files().get(0).toFile();
      byte[] bytes = Files.readAllBytes(file.toPath());
      bytes[bytes.length / 2] ^= 1;
      Files.write(file.toPath(), bytes);
      harness.notifyOfCompletedCheckpoint(1);
      assertThrows(Exception.class, () -> drain(harness, 1));
      assertEquals(List.of(), clickhouse.posts());
    }
  }

  /** Writes a block and begins a checkpoint, which does not complete; returns its state. */
  private static OperatorSubtaskState unfinished(
      long id, OneInputStreamOperatorTestHarness<NativeBlock, Void> harness) throws Exception {
    harness.processElement(new StreamRecord<>(block(id)));
    return harness.snapshot(id, 0);
  }

  @Test
  void pastItsBoundTheTaskFailsWhileNoCheckpointCompletes() throws Exception {
    long most = ClickHouseSinkOperator.MAX_UNFINISHED;
    try (FakeClickHouse clickhouse = new FakeClickHouse(n -> Fate.STORED);
        var harness = harness(clickhouse, 1, WEEK)) {
      harness.open();
      for (long id = 1; id <= 2 * most; id++) {
        unfinished(id, harness);
        if (id <= most) {
          harness.getOperator().notifyCheckpointAborted(id); // counts once
        }
        if (id == most) {
          harness.notifyOfCompletedCheckpoint(id);
        }
      }
      harness.processElement(new StreamRecord<>(block(7))); // a checkpoint may take its time
      assertEquals(most, clickhouse.rows().size());
      harness.getOperator().notifyCheckpointAborted(2 * most + 1); // its barrier did not come
      Exception failure =
          assertThrows(
              ClickHouseSinkOperator.UnfinishedException.class,
              () -> harness.processElement(new StreamRecord<>(block(8))));
      assertTrue(failure.getMessage().contains("--max-pending"), failure.getMessage());
    }
  }

  @Test
  void aRestartRemovesOnlyFilesOfItsOwnThatTheStateDoesNotList() throws Exception {
    try (FakeClickHouse clickhouse = new FakeClickHouse(n -> Fate.STORED)) {
      OperatorSubtaskState state;
      try (var harness = harness(clickhouse, 1 << 20, WEEK, 2, 0)) {
        harness.open();
        state = unfinished(1, harness);
        unfinished(2, harness);
        harness.processElement(new StreamRecord<>(block(3)));
      }
      Files.writeString(directory.resolve("notes.txt"), "of a person");
      try (var harness = harness(clickhouse, 1 << 20, WEEK, 2, 1)) {
        harness.initializeState(state);
        harness.open();
        assertEquals(4, files().size(), "those of the other subtask");
      }
      try (var harness = harness(clickhouse, 1 << 20, WEEK, 2, 0)) {
        harness.initializeState(state);
        harness.open();
        assertEquals(2, files().size(), "the listed one and the notes");
        drain(harness, 1);
        assertEquals(1, clickhouse.rows().size());
      }
    }
  }

  @Test
  void pastItsBoundTheInputWaitsForClickHouseAndForNothingElse() throws Exception {
    try (FakeClickHouse clickhouse = new FakeClickHouse(n -> n < 3 ? Fate.BUSY : Fate.STORED);
        var harness = harness(clickhouse, 1, WEEK)) {
      harness.open();
      // No insert is in progress: waiting would mean waiting for the next barrier, which the paused
      // input holds up.
      harness.processElement(new StreamRecord<>(block(1)));
      harness.snapshot(1, 0);
      harness.processElement(new StreamRecord<>(block(2)));
      harness.notifyOfCompletedCheckpoint(1);
      assertEquals(0, clickhouse.rows().size());
      harness.processElement(
          new StreamRecord<>(block(3))); // comes back only when the first block is stored
      assertEquals(1, clickhouse.rows().size());
    }
  }
}
