package io.weir.jobs.enrich;

import com.google.protobuf.ByteString;
import io.weir.jobs.message.Accepted;
import io.weir.jobs.message.Addresses;
import io.weir.jobs.message.Enrichment;
import io.weir.jobs.metrics.Metric;
import io.weir.jobs.privacy.Privacy;
import io.weir.jobs.privacy.Pseudonymizer;
import io.weir.jobs.table.Table;
import io.weir.jobs.table.TableRow;
import io.weir.proto.Flow;
import io.weir.proto.FlowMessage;
import io.weir.proto.Pseudonyms;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.metrics.Counter;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;

/**
 * Adds the data known about both ends to each record of each batch. All other messages pass
 * unchanged. Keeps no state: the data comes from {@link Lookups}.
 */
public final class Enrich extends ProcessFunction<Accepted, Accepted> {
  private static final long serialVersionUID = 1;

  /** Rows of {@code autonomous_systems}: all names, once for each file that was loaded. */
  public static final OutputTag<TableRow> AUTONOMOUS_SYSTEMS =
      new OutputTag<>("autonomous-systems", TableRow.TYPE);

  private static final Metric DISBELIEVED =
      Metric.counter(
          "disbelieved_records",
          "enrich",
          "Records that claim to hold pseudonyms, of a probe that is not declared to make any: the jobs, which"
              + " hold a key, took their addresses for real ones, by `cause` (scope `weir_cause`)");

  /** The metrics of this operator. */
  public static final List<Metric> METRICS =
      Stream.concat(Reference.METRICS.stream(), Stream.of(DISBELIEVED)).toList();

  private final Lookups.Factory factory;
  private final Privacy privacy;
  private transient Counter disbelieved;
  private transient Pseudonymizer pseudonymizer;
  private transient Lookups lookups;
  private transient boolean tellsNames;
  private transient Known.Names told;

  public Enrich(Lookups.Factory factory) {
    this(factory, Privacy.OFF);
  }

  /**
   * With pseudonyms in place of addresses, once everything is looked up: whatever follows sees
   * these alone.
   */
  public Enrich(Lookups.Factory factory, Privacy privacy) {
    this.factory = factory;
    this.privacy = privacy;
  }

  @Override
  public void open(OpenContext context) throws Exception {
    lookups = factory.open();
    pseudonymizer = privacy.isOn() ? new Pseudonymizer(privacy) : null;
    tellsNames = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask() == 0;
    told = Known.Names.NONE;
    disbelieved = DISBELIEVED.register(getRuntimeContext().getMetricGroup(), "not_declared");
    if (tellsNames) {
      lookups.register(getRuntimeContext().getMetricGroup());
    }
  }

  @Override
  public void close() {
    if (lookups != null) {
      lookups.close();
    }
  }

  @Override
  public void processElement(Accepted accepted, Context context, Collector<Accepted> out) {
    FlowMessage message = accepted.flow();
    if (message == null || !message.hasBatch()) {
      out.collect(accepted);
      return;
    }
    Known known = lookups.now();
    if (tellsNames && !known.names().equals(told)) {
      told = known.names();
      tell(context);
    }
    if (pseudonymizer != null && !declared(message, known).pseudonyms()) {
      long claims = Pseudonymizer.claims(message);
      if (claims > 0) {
        disbelieved.inc(claims);
        message = Pseudonymizer.withoutClaims(message);
      }
    }
    Enrichment enrichment = enrichment(message, known);
    FlowMessage kept = pseudonymizer == null ? message : pseudonymizer.hide(message);
    out.collect(new Accepted(kept, null, enrichment, accepted.offset(), accepted.appended()));
  }

  private void tell(Context context) {
    for (Map.Entry<Integer, String> entry : told.byNumber().entrySet()) {
      Object[] cells = {told.builtAt(), Integer.toUnsignedLong(entry.getKey()), entry.getValue()};
      context.output(AUTONOMOUS_SYSTEMS, new TableRow(Table.AUTONOMOUS_SYSTEMS, cells));
    }
  }

  private static Known.Probe declared(FlowMessage message, Known known) {
    return known.probes().getOrDefault(message.getProbe(), Known.Probe.UNKNOWN);
  }

  /** The enrichment of the records of a batch. */
  static Enrichment enrichment(FlowMessage message, Known known) {
    List<Flow> flows = message.getBatch().getFlowsList();
    Enrichment enrichment = new Enrichment(flows.size());
    Known.Probe probe = declared(message, known);
    enrichment.rank = probe.rank();
    enrichment.oneWay = probe.oneWay();
    Prefixes prefixes = known.prefixes();
    int site = prefixes.siteNumber(probe.site());
    int answerable =
        (site != 0 ? Enrichment.SITE_KNOWN : 0)
            | (prefixes.anyNational() ? Enrichment.NATION_KNOWN : 0);
    End end = new End(known);
    for (int i = 0; i < flows.size(); i++) {
      Flow flow = flows.get(i);
      int pseudonyms = flow.getPseudonymsValue();
      end.look(flow.getSrcAddr(), (pseudonyms & Pseudonyms.PSEUDONYMS_SOURCE_VALUE) != 0);
      enrichment.srcAs[i] = end.system;
      enrichment.srcCountry[i] = (short) end.country;
      enrichment.srcPrefix[i] = prefixes.id(end.place);
      enrichment.srcCustomer[i] = prefixes.customer(end.place);
      int ends = end.told ? answerable : 0;
      if (site != 0 && prefixes.site(end.place) == site) {
        ends |= Enrichment.SRC_AT_SITE;
      }
      if (prefixes.national(end.place)) {
        ends |= Enrichment.SRC_NATIONAL;
      }
      end.look(flow.getDstAddr(), (pseudonyms & Pseudonyms.PSEUDONYMS_DESTINATION_VALUE) != 0);
      enrichment.dstAs[i] = end.system;
      enrichment.dstCountry[i] = (short) end.country;
      enrichment.dstPrefix[i] = prefixes.id(end.place);
      enrichment.dstCustomer[i] = prefixes.customer(end.place);
      if (!end.told) {
        ends &= ~answerable;
      }
      if (site != 0 && prefixes.site(end.place) == site) {
        ends |= Enrichment.DST_AT_SITE;
      }
      if (prefixes.national(end.place)) {
        ends |= Enrichment.DST_NATIONAL;
      }
      enrichment.ends[i] = (byte) ends;
      enrichment.service[i] = (short) Services.of(flow);
    }
    return enrichment;
  }

  /** One address and its enrichment. */
  private static final class End {
    private final Known known;
    boolean told;
    int place;
    int system;
    int country;

    End(Known known) {
      this.known = known;
    }

    /** Nothing is known about a pseudonym: by chance it is the address of somebody else. */
    void look(ByteString address, boolean pseudonym) {
      told = !address.isEmpty() && !pseudonym;
      if (told) {
        long high = Addresses.high(address);
        long low = Addresses.low(address);
        int found = Addresses.isIpv4(high, low) ? known.find((int) low) : known.find(high, low);
        place = known.prefix(found);
        system = known.system(found);
        country = known.country(found);
      } else {
        place = 0;
        system = 0;
        country = 0;
      }
    }
  }
}
