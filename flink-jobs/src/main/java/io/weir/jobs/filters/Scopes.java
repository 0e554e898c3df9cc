package io.weir.jobs.filters;

import io.weir.jobs.filters.MeansMessage.Counted;
import io.weir.jobs.message.Accepted;
import io.weir.jobs.message.Enrolment;
import io.weir.proto.Counter;
import io.weir.proto.CounterMessage;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.util.Collector;

/**
 * The scopes in which counters are added up: each probe, and all probes together, divided into
 * {@link #ALL} shares of the counter sets. Every share receives every message, so that each knows
 * which intervals the probes have completed.
 */
final class Scopes {
  /** Keys of the shares of the scope over all probes; no probe's name contains a slash. */
  static final List<String> ALL = List.of("/0", "/1", "/2", "/3");

  private static final long[] NONE = {};

  private Scopes() {}

  static boolean isAll(String scope) {
    return scope.startsWith("/");
  }

  static void split(Accepted accepted, Collector<MeansMessage> out) {
    CounterMessage message = accepted.counter();
    if (message == null) {
      return;
    }
    List<Counted> whole = new ArrayList<>(message.getCountersCount());
    List<List<Counted>> shares = new ArrayList<>();
    ALL.forEach(share -> shares.add(new ArrayList<>()));
    for (Counter counter : message.getCountersList()) {
      Counted counted =
          new Counted(
              new Label(counter.getSet(), counter.getLabel()),
              counter.getPackets(),
              counter.getOctets());
      whole.add(counted);
      shares.get(Math.floorMod(counter.getSet().hashCode(), ALL.size())).add(counted);
    }
    out.collect(of(message.getProbe(), accepted, whole));
    for (int i = 0; i < ALL.size(); i++) {
      out.collect(of(ALL.get(i), accepted, shares.get(i)));
    }
  }

  static void enrolled(Enrolment enrolment, Collector<MeansMessage> out) {
    for (String share : ALL) {
      out.collect(MeansMessage.enrolled(share, enrolment));
    }
    for (Enrolment.Probe probe : enrolment.probes()) {
      out.collect(
          MeansMessage.enrolled(probe.name(), new Enrolment(enrolment.at(), List.of(probe))));
    }
  }

  private static MeansMessage of(String scope, Accepted accepted, List<Counted> counters) {
    CounterMessage message = accepted.counter();
    return new MeansMessage(
        scope,
        -1,
        message.getProbe(),
        message.getWorker(),
        message.getEpoch(),
        message.getIntervalStartMs(),
        message.getIntervalMs(),
        accepted.offset(),
        accepted.appended(),
        counters,
        NONE);
  }
}
