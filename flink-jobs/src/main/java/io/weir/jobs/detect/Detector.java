package io.weir.jobs.detect;

import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;

/**
 * One way to find out who does something to whom. It gathers numbers from the records as they come,
 * by subject, and judges them together with what it remembers of the subject.
 *
 * @param <M> what it remembers of a subject
 */
abstract class Detector<M> {
  private final int id;
  private final int numbers;
  private final int stride;
  private final int most;
  private final boolean byProbe;
  private final Remembers<M> remembers;

  /**
   * What a detector remembers.
   *
   * @param memories its part of the state
   * @param fresh what it knows of a subject at first
   * @param until end of the newest evidence in a memory, ms from 1970
   */
  record Remembers<M>(
      Function<Memories, Map<At, M>> memories, Supplier<M> fresh, ToLongFunction<M> until) {}

  /**
   * Declares a detector.
   *
   * @param id by which messages name it
   * @param numbers of a group
   * @param stride numbers of an item of a group
   * @param most items of a group
   * @param byProbe whether it judges what each probe sees, for else packets that two of them saw
   *     would count twice
   * @param remembers what it remembers
   */
  Detector(int id, int numbers, int stride, int most, boolean byProbe, Remembers<M> remembers) {
    this.id = id;
    this.numbers = numbers;
    this.stride = stride;
    this.most = most;
    this.byProbe = byProbe;
    this.remembers = remembers;
  }

  final int id() {
    return id;
  }

  final int numbers() {
    return numbers;
  }

  final int stride() {
    return stride;
  }

  /** Whether a group has room for one more item. */
  final boolean hasRoom(Gathered.Group group) {
    return group.hasRoom(most, stride);
  }

  /** Gathers what a record says. */
  abstract void see(Look record, Gathered into);

  /** Gathers what only counts beside what else was gathered, before that is sent. */
  void complete(Gathered into) {}

  /** How much a memory is worth: where there is no room, those of least weight go. */
  abstract long weight(M memory);

  /** Adds the evidence to the memory, and passes on each finding. */
  abstract void judge(M memory, Evidence evidence, Limits.Source limits, Consumer<Finding> out);

  /** The reasons of its alerts. */
  abstract List<Reason> reasons();

  /** Takes in what was gathered, if there is a memory for it or it begins one. */
  final void take(Memories of, Evidence evidence, Limits.Source limits, Consumer<Finding> out) {
    Map<At, M> known = remembers.memories.apply(of);
    At key = new At(evidence.subject(), byProbe ? evidence.probe() : "");
    M memory = known.get(key);
    if (memory == null) {
      if (!begins(evidence)) {
        return;
      }
      of.makeRoom(known, this::weight);
      memory = remembers.fresh.get();
      known.put(key, memory);
    }
    judge(memory, evidence, limits, out);
  }

  /** Forgets the subjects of which nothing was heard since then. */
  final void forget(Memories of, long since) {
    remembers
        .memories
        .apply(of)
        .values()
        .removeIf(memory -> remembers.until.applyAsLong(memory) < since);
  }

  /** Whether what was gathered is worth remembering of a subject of which nothing is known. */
  boolean begins(Evidence evidence) {
    return true;
  }
}
