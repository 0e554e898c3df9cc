package io.weir.jobs;

import io.weir.jobs.graph.Options;
import io.weir.jobs.graph.Streams;
import io.weir.jobs.sink.ClickHouse;
import io.weir.jobs.sink.LeftBlocks;
import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.RunnableFuture;
import java.util.stream.Collectors;
import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeutils.base.array.BytePrimitiveArraySerializer;
import org.apache.flink.connector.kafka.source.split.KafkaPartitionSplit;
import org.apache.flink.connector.kafka.source.split.KafkaPartitionSplitSerializer;
import org.apache.flink.core.fs.CloseableRegistry;
import org.apache.flink.core.io.SimpleVersionedSerialization;
import org.apache.flink.runtime.checkpoint.CheckpointOptions;
import org.apache.flink.runtime.checkpoint.Checkpoints;
import org.apache.flink.runtime.checkpoint.OperatorState;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.checkpoint.StateObjectCollection;
import org.apache.flink.runtime.checkpoint.metadata.CheckpointMetadata;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.state.DefaultOperatorStateBackend;
import org.apache.flink.runtime.state.DefaultOperatorStateBackendBuilder;
import org.apache.flink.runtime.state.OperatorStateHandle;
import org.apache.flink.runtime.state.OperatorStreamStateHandle;
import org.apache.flink.runtime.state.SnapshotResult;
import org.apache.flink.runtime.state.StateObject;
import org.apache.flink.runtime.state.StreamStateHandle;
import org.apache.flink.runtime.state.memory.MemCheckpointStreamFactory;
import org.apache.flink.shaded.guava33.com.google.common.hash.Hashing;

/**
 * Prepares the state of stopped jobs for a backup, and that of a backup for another Kafka. {@code
 * weir backup} and {@code weir restore} call it; Flink does not run.
 *
 * <p>A start from a state inserts the blocks that it lists once more, and relies on the tables'
 * memory of tokens. Restored tables have no such memory: the state of a backup lists no blocks, and
 * its tables have them all.
 */
public final class SavedState {
  private static final String METADATA = "_metadata";

  /** How long to retry a block that ClickHouse does not accept. */
  private static final Duration PATIENCE = Duration.ofSeconds(60);

  private static final ListStateDescriptor<byte[]> SPLITS =
      new ListStateDescriptor<>("SourceReaderState", BytePrimitiveArraySerializer.INSTANCE);
  private static final KafkaPartitionSplitSerializer SPLIT = new KafkaPartitionSplitSerializer();

  private static final String USAGE =
      """
      usage: settle OUT [options of the jobs]   insert the blocks of the newest state, write its _metadata without them
             drop-offsets FOLDER                remove the offsets in Kafka from the state in a folder
      """;

  private SavedState() {}

  /** The first argument is what to do. */
  public static void main(String[] arguments) {
    try {
      List<String> words = List.of(arguments);
      if (words.size() >= 2 && words.get(0).equals("settle")) {
        String[] rest = Arrays.copyOfRange(arguments, 2, arguments.length);
        Options options = Options.parse(rest, System.getenv(), Jobs.ALL);
        System.out.println(settle(options, Path.of(words.get(1))));
      } else if (words.size() == 2 && words.get(0).equals("drop-offsets")) {
        dropOffsets(Path.of(words.get(1)));
      } else {
        System.err.print(USAGE);
        System.exit(2);
      }
      System.exit(0);
    } catch (Exception e) {
      System.err.println("weir-flink-jobs: " + WeirJobs.rootCause(e));
      System.exit(1);
    }
  }

  /**
   * Inserts the blocks that the newest state lists, and writes metadata of this state without them
   * into another folder. Returns a JSON object: the state's folder, empty if there is none; the
   * number of blocks; the offsets from which the jobs read next, by topic and partition.
   */
  static String settle(Options options, Path out) throws Exception {
    Path directory = io.weir.jobs.Checkpoints.local(Options.uri(options.checkpoints));
    Optional<Path> newest =
        Files.isDirectory(directory)
            ? io.weir.jobs.Checkpoints.newest(directory)
            : Optional.empty();
    if (newest.isEmpty()) {
      return "{\"state\": \"\"}";
    }
    Path folder = newest.get();
    LeftBlocks left =
        new LeftBlocks(
            new ClickHouse(options.clickhouse), options.retryFor.toMillis(), PATIENCE.toMillis());
    org.apache.flink.core.fs.Path rows =
        new org.apache.flink.core.fs.Path(Options.uri(options.checkpoints) + Streams.ROWS);
    CheckpointMetadata metadata = read(folder);
    int blocks = 0;
    Map<String, Map<Integer, Long>> offsets = Map.of();
    for (OperatorState operator : metadata.getOperatorStates()) {
      List<OperatorStateHandle> handles = handles(operator);
      Set<String> names = new HashSet<>();
      handles.forEach(one -> names.addAll(one.getStateNameToPartitionOffsets().keySet()));
      if (operator.getOperatorID().equals(kafka())) {
        offsets = settleOffsets(operator, options);
      } else if (names.contains(LeftBlocks.STATE)) {
        try (DefaultOperatorStateBackend state = restored(handles)) {
          blocks += left.insert(state, rows);
        }
        operator
            .getSubtaskStates()
            .forEach((number, subtask) -> operator.putState(number, without(subtask)));
      }
    }
    Files.createDirectories(out);
    write(metadata, out.resolve(METADATA));
    checkMovable(out);
    return "{\"state\": \"%s\", \"blocks\": %d, \"offsets\": {%s}}"
        .formatted(folder, blocks, json(offsets));
  }

  /**
   * Removes the state of the source from the state in a folder: the jobs then read from the start.
   */
  static void dropOffsets(Path folder) throws IOException {
    CheckpointMetadata metadata = read(folder);
    List<OperatorState> others =
        metadata.getOperatorStates().stream()
            .filter(operator -> !operator.getOperatorID().equals(kafka()))
            .toList();
    if (others.size() == metadata.getOperatorStates().size()) {
      throw new IOException("the state in " + folder + " has no offsets");
    }
    Path next = folder.resolve(METADATA + ".next");
    write(
        new CheckpointMetadata(
            metadata.getCheckpointId(),
            others,
            metadata.getMasterStates(),
            metadata.getCheckpointProperties()),
        next);
    Files.move(next, folder.resolve(METADATA), java.nio.file.StandardCopyOption.REPLACE_EXISTING);
  }

  private static CheckpointMetadata read(Path folder) throws IOException {
    try (DataInputStream in =
        new DataInputStream(
            new BufferedInputStream(Files.newInputStream(folder.resolve(METADATA))))) {
      return Checkpoints.loadCheckpointMetadata(
          in, SavedState.class.getClassLoader(), Options.uri(folder));
    }
  }

  private static void write(CheckpointMetadata metadata, Path out) throws IOException {
    try (OutputStream file = Files.newOutputStream(out)) {
      Checkpoints.storeCheckpointMetadata(metadata, file);
    }
  }

  /** Fails if the state in a folder has files elsewhere, which a copy of the folder would lack. */
  private static void checkMovable(Path folder) throws IOException {
    for (OperatorState operator : read(folder).getOperatorStates()) {
      for (StateObject object : operator.getDiscardables()) {
        Optional<org.apache.flink.core.fs.Path> path =
            object instanceof StreamStateHandle stream ? stream.maybeGetPath() : Optional.empty();
        if (path.isPresent() && !Path.of(path.get().getPath()).startsWith(folder)) {
          throw new IOException("the state has files elsewhere: " + path.get());
        }
      }
    }
  }

  /** The id of the source that reads Kafka; Flink makes an operator's id from its uid. */
  private static OperatorID kafka() {
    return new OperatorID(
        Hashing.murmur3_128(0).hashString(Streams.KAFKA, StandardCharsets.UTF_8).asBytes());
  }

  private static List<OperatorStateHandle> handles(OperatorState operator) {
    List<OperatorStateHandle> handles = new ArrayList<>();
    operator.getStates().forEach(subtask -> handles.addAll(subtask.getManagedOperatorState()));
    return handles;
  }

  private static DefaultOperatorStateBackend restored(List<OperatorStateHandle> handles)
      throws IOException {
    return new DefaultOperatorStateBackendBuilder(
            SavedState.class.getClassLoader(),
            new ExecutionConfig(),
            false,
            handles,
            new CloseableRegistry())
        .build();
  }

  /**
   * Returns the offsets from which the source reads next. A partition from which it has read
   * nothing has no offset in its state, only where to look for one: this writes that offset
   * instead, because the jobs' later commits would be found there.
   */
  private static Map<String, Map<Integer, Long>> settleOffsets(
      OperatorState source, Options options) throws Exception {
    Map<String, Map<Integer, Long>> offsets = new TreeMap<>();
    for (Map.Entry<Integer, OperatorSubtaskState> subtask :
        Map.copyOf(source.getSubtaskStates()).entrySet()) {
      try (DefaultOperatorStateBackend backend =
          restored(new ArrayList<>(subtask.getValue().getManagedOperatorState()))) {
        ListState<byte[]> state = backend.getListState(SPLITS);
        List<KafkaPartitionSplit> splits = new ArrayList<>();
        for (byte[] split : state.get()) {
          splits.add(SimpleVersionedSerialization.readVersionAndDeSerialize(SPLIT, split));
        }
        List<KafkaPartitionSplit> found = KafkaOffsets.found(splits, options);
        for (KafkaPartitionSplit one : found) {
          offsets
              .computeIfAbsent(one.getTopic(), topic -> new TreeMap<>())
              .put(one.getPartition(), one.getStartingOffset());
        }
        if (!found.equals(splits)) {
          List<byte[]> written = new ArrayList<>();
          for (KafkaPartitionSplit one : found) {
            written.add(SimpleVersionedSerialization.writeVersionAndSerialize(SPLIT, one));
          }
          state.update(written);
          source.putState(
              subtask.getKey(),
              subtask.getValue().toBuilder().setManagedOperatorState(saved(backend)).build());
        }
      }
    }
    return offsets;
  }

  private static OperatorStateHandle saved(DefaultOperatorStateBackend state) throws Exception {
    RunnableFuture<SnapshotResult<OperatorStateHandle>> saved =
        state.snapshot(
            1,
            1,
            new MemCheckpointStreamFactory(Integer.MAX_VALUE),
            CheckpointOptions.forCheckpointWithDefaultLocation());
    saved.run();
    return saved.get().getJobManagerOwnedSnapshot();
  }

  /** A sink's state that lists no files; all else in it stays. */
  private static OperatorSubtaskState without(OperatorSubtaskState subtask) {
    List<OperatorStateHandle> emptied =
        subtask.getManagedOperatorState().stream().map(SavedState::without).toList();
    return subtask.toBuilder()
        .setManagedOperatorState(new StateObjectCollection<>(new ArrayList<>(emptied)))
        .build();
  }

  private static OperatorStateHandle without(OperatorStateHandle handle) {
    Map<String, OperatorStateHandle.StateMetaInfo> kept =
        new HashMap<>(handle.getStateNameToPartitionOffsets());
    kept.computeIfPresent(
        LeftBlocks.STATE,
        (name, info) ->
            new OperatorStateHandle.StateMetaInfo(new long[0], info.getDistributionMode()));
    return new OperatorStreamStateHandle(kept, handle.getDelegateStateHandle());
  }

  private static String json(Map<String, Map<Integer, Long>> offsets) {
    return offsets.entrySet().stream()
        .map(
            topic ->
                topic.getValue().entrySet().stream()
                    .map(one -> "\"%d\": %d".formatted(one.getKey(), one.getValue()))
                    .collect(Collectors.joining(", ", "\"" + topic.getKey() + "\": {", "}")))
        .collect(Collectors.joining(", "));
  }
}
