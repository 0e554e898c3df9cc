package io.weir.jobs.detect;

import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

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

  /**
   * Declares a detector.
   *
   * @param id by which messages name it
   * @param numbers of a group
   * @param stride numbers of an item of a group
   * @param most items of a group
   * @param byProbe whether it judges what each probe sees, for else packets that two of them saw
   *     would count twice
   */
  Detector(int id, int numbers, int stride, int most, boolean byProbe) {
    this.id = id;
    this.numbers = numbers;
    this.stride = stride;
    this.most = most;
    this.byProbe = byProbe;
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

  /** The reasons of its alerts. */
  abstract List<Reason> reasons();

  /** Gathers what a record says. */
  abstract void see(Look record, Gathered into);

  /** Gathers what only counts beside what else was gathered, before that is sent. */
  void complete(Gathered into) {}

  /** What it remembers. */
  abstract Map<At, M> memories(Memories of);

  /** What it knows of a subject at first. */
  abstract M fresh();

  /** How much a memory is worth: where there is no room, those of least weight go. */
  abstract long weight(M memory);

  /** End of the newest evidence in it, ms from 1970. */
  abstract long until(M memory);

  /** Takes in what was gathered, and says what it found. */
  abstract void judge(M memory, Evidence evidence, Consumer<Finding> out);

  /** Takes in what was gathered, if there is a memory for it or it begins one. */
  final void take(Memories of, Evidence evidence, Consumer<Finding> out) {
    Map<At, M> known = memories(of);
    At key = new At(evidence.subject(), byProbe ? evidence.probe() : "");
    M memory = known.get(key);
    if (memory == null) {
      if (!begins(evidence)) {
        return;
      }
      of.makeRoom(known, this::weight);
      memory = fresh();
      known.put(key, memory);
    }
    judge(memory, evidence, out);
  }

  /** Forgets the subjects of which nothing was heard since then. */
  final void forget(Memories of, long since) {
    memories(of).values().removeIf(memory -> until(memory) < since);
  }

  /** Whether what was gathered is worth remembering of a subject of which nothing is known. */
  boolean begins(Evidence evidence) {
    return true;
  }
}
