package io.weir.jobs.ledger;

import io.weir.jobs.Stage;
import io.weir.jobs.message.Enrolment;
import io.weir.jobs.message.LedgerEvent;
import io.weir.proto.ClosingRecord;
import io.weir.proto.Conservation;
import io.weir.proto.Volume;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;

/**
 * Events of the probe alpha, which has one worker and an agent whose runs have any epochs: a batch
 * and a closing record of each interval of 10 s, and a list of Kafka's every 5 s. Times are seconds
 * after {@link #BASE_MS}.
 */
public final class RunEvents {
  public static final long BASE_MS = 1_767_225_600_000L;

  /** Two hours. */
  public static final int AHEAD = 7_200;

  private static final int INTERVAL_MS = 10_000;

  /** By the time at which they come, ms after the base. */
  private final TreeMap<Long, List<LedgerEvent>> events = new TreeMap<>();

  private int sent;

  /** One run. */
  public final class Run {
    private final long epoch;
    private long sequence;

    private Run(long epoch) {
      this.epoch = epoch;
    }

    /** It sends the intervals of this time, and none stays open. */
    public Run sends(int from, int to) {
      for (int start = from; start < to; start += 10) {
        interval(start, start, false);
      }
      return this;
    }

    /** It sends an interval at some time; {@code last}: and stops in order. */
    public Run interval(int start, int at, boolean last) {
      batch(start, at + 5);
      return close(start, at + (last ? 9 : 11), last);
    }

    public Run batch(int start, int at) {
      return add(LedgerEvent.Kind.BATCH, start, at, new byte[0]);
    }

    /** It closes an interval since whose beginning it has sent one batch. */
    public Run close(int start, int at, boolean last) {
      return close(start, at, closing(1).setLast(last).build());
    }

    /** It closes an interval, with one batch for it, and says that it sent another one late. */
    public Run closeWithLate(int start, int late, int at) {
      ClosingRecord.Builder closing = closing(1).setFirstSequence(sequence - 2).setBatches(2);
      closing
          .addLateBuilder()
          .setIntervalStartMs(BASE_MS + 1000L * late)
          .setBatches(1)
          .setRecords(1)
          .setVolume(Volume.newBuilder().setPackets(1).setOctets(100));
      return close(start, at, closing.build());
    }

    /** It closes an interval, and the closing record is lost. */
    public Run lose() {
      sequence++;
      return this;
    }

    private Run close(int start, int at, ClosingRecord closing) {
      return add(LedgerEvent.Kind.CLOSING, start, at, closing.toByteArray());
    }

    /** The closing record of an interval with so many packets, one in each of the run's batches. */
    private ClosingRecord.Builder closing(int packets) {
      return ClosingRecord.newBuilder()
          .setFirstSequence(sequence - packets)
          .setBatches(packets)
          .setRecords(packets)
          .setWorkers(1)
          .setSource("af_packet:eth0")
          .setInterval(sums(packets))
          .setEpochTotal(sums((sequence + 1) / 2));
    }

    private static Conservation sums(long packets) {
      Volume volume = Volume.newBuilder().setPackets(packets).setOctets(100 * packets).build();
      return Conservation.newBuilder()
          .setOnInterface(volume)
          .setCaptured(volume)
          .setInFlowRecords(volume)
          .build();
    }

    /** It closes an interval in which nothing was on the interface. */
    public Run closeEmpty(int start, int at) {
      return close(start, at, closing(0).build());
    }

    private Run add(LedgerEvent.Kind kind, int start, int at, byte[] body) {
      long packets = kind == LedgerEvent.Kind.BATCH ? 1 : 0;
      long came = BASE_MS + 1000L * at;
      events
          .computeIfAbsent(1000L * at, key -> new ArrayList<>())
          .add(
              new LedgerEvent(
                  kind,
                  "alpha",
                  0,
                  epoch,
                  sequence++,
                  BASE_MS + 1000L * start,
                  INTERVAL_MS,
                  sent++,
                  came,
                  packets,
                  packets,
                  100 * packets,
                  body));
      return this;
    }
  }

  /**
   * An agent begins while its clock is two hours ahead, stops in order at 300 s, loses its state,
   * and begins again with the right time; it stops in order at 600 s, or dies.
   */
  public RunEvents lowerEpoch(boolean stops) {
    run(AHEAD).sends(0, 290).interval(290, 290, true);
    Run second = run(301).sends(300, 590);
    second.interval(590, 590, stops);
    return this;
  }

  /**
   * An agent runs twice and stops in order at 600 s; more than an hour later, another message of
   * its first run comes.
   */
  public RunEvents leftovers() {
    Run first = run(1).sends(0, 300);
    run(301).sends(300, 590).interval(590, 590, true);
    first.interval(300, 4_800, false);
    return this;
  }

  /** A run that begins when the agent's clock says so. */
  public Run run(int began) {
    return new Run((BASE_MS + 1000L * began) * 1000);
  }

  /**
   * Passes on all events, in order, until some time; the job restarts after every so many. Returns
   * its output.
   */
  public <T> List<T> play(int until, Stage<LedgerEvent, T> job, int restartEvery) throws Exception {
    List<T> out = new ArrayList<>();
    long end = 0;
    int count = 0;
    for (long at = 0; at <= 1000L * until; at += 1000) {
      List<LedgerEvent> come = new ArrayList<>(events.getOrDefault(at, List.of()));
      end += come.size();
      if (at % 5_000 == 0) {
        Enrolment.Probe probe = new Enrolment.Probe("alpha", new long[1], new long[] {end});
        come.addAll(LedgerStages.enrolled(new Enrolment(BASE_MS + at, List.of(probe))));
      }
      out.addAll(job.time(BASE_MS + at));
      for (LedgerEvent event : come) {
        out.addAll(job.give(event));
        if (++count % restartEvery == 0) {
          job.restart(1);
        }
      }
    }
    return out;
  }
}
