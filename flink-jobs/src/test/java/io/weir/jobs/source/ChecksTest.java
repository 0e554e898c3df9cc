package io.weir.jobs.source;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.protobuf.UnknownFieldSet;
import io.weir.jobs.message.RawMessage;
import io.weir.proto.Alert;
import io.weir.proto.ClosingRecord;
import io.weir.proto.CounterMessage;
import io.weir.proto.Flow;
import io.weir.proto.FlowBatch;
import io.weir.proto.FlowMessage;
import io.weir.proto.Severity;
import java.util.Collections;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Which messages the jobs refuse, and why. */
class ChecksTest {
  private static final long START_MS = 1_767_225_600_000L;

  private static FlowMessage.Builder closing() {
    return FlowMessage.newBuilder()
        .setMajor(Checks.MAJOR)
        .setProbe("alpha")
        .setIntervalStartMs(START_MS)
        .setIntervalMs(10_000)
        .setClosing(ClosingRecord.getDefaultInstance());
  }

  /** The cause for which the message is refused, empty if it is accepted. */
  private static String refusal(FlowMessage.Builder message) {
    byte[] value = message.build().toByteArray();
    try {
      Checks.flows(new RawMessage("weir.flows.alpha", 0, 0, START_MS, value));
      return "";
    } catch (Checks.Refused e) {
      return e.getMessage();
    }
  }

  private static String counterRefusal(int length) {
    CounterMessage message =
        CounterMessage.newBuilder()
            .setMajor(Checks.MAJOR)
            .setProbe("alpha")
            .setIntervalStartMs(START_MS)
            .setIntervalMs(length)
            .build();
    try {
      Checks.counters(new RawMessage("weir.counters.alpha", 0, 0, START_MS, message.toByteArray()));
      return "";
    } catch (Checks.Refused e) {
      return e.getMessage();
    }
  }

  @Test
  void anIntervalHasOneOfTheLengthsThatTheSchemaNames() {
    List<Integer> accepted =
        IntStream.range(0, 70_000)
            .filter(length -> refusal(closing().setIntervalMs(length)).isEmpty())
            .boxed()
            .toList();
    assertEquals(List.of(1_000, 2_000, 5_000, 10_000, 15_000, 30_000), accepted);
    assertEquals("bad_interval: length 60000 ms", refusal(closing().setIntervalMs(60_000)));
    assertEquals("", counterRefusal(30_000));
    assertEquals("bad_interval: length 7000 ms", counterRefusal(7_000));
    assertEquals("bad_interval: length 4294967295 ms", counterRefusal(-1));
  }

  @Test
  void anIntervalBeginsAndEndsWithinTheColumnOfSeconds() {
    long last = 0xffff_ffffL * 1000 - 10_000;
    assertEquals("", refusal(closing().setIntervalStartMs(last)));
    for (long start : new long[] {last + 1_000, -1_000, Long.MAX_VALUE - 807, START_MS + 1}) {
      assertEquals(
          "bad_interval: start " + Long.toUnsignedString(start) + " ms",
          refusal(closing().setIntervalStartMs(start)));
    }
  }

  @Test
  void aMessageIsOfItsTopicsProbeAndWorkerAndOfThisSchema() {
    assertEquals("major: 2, understood is 1", refusal(closing().setMajor(2)));
    assertEquals("wrong_probe: beta on the topic of alpha", refusal(closing().setProbe("beta")));
    assertEquals("wrong_worker: 1 in partition 0", refusal(closing().setWorker(1)));
    assertEquals(
        "no_body: neither a batch nor a closing record", refusal(closing().clearClosing()));
  }

  @Test
  void aMessageOfVeryManyPartsIsNotParsed() {
    List<Flow> flows = Collections.nCopies(Parts.MAX, Flow.getDefaultInstance());
    FlowMessage.Builder many = closing().setBatch(FlowBatch.newBuilder().addAllFlows(flows));
    assertEquals("too_many_parts: more than " + Parts.MAX, refusal(many));
    FlowMessage.Builder fewer = closing();
    fewer.setBatch(FlowBatch.newBuilder().addAllFlows(flows.subList(1, Parts.MAX)));
    assertEquals("", refusal(fewer));
    UnknownFieldSet.Builder unknown = UnknownFieldSet.newBuilder();
    for (int i = 0; i <= Parts.MAX; i++) {
      unknown.addField(1000 + i, UnknownFieldSet.Field.newBuilder().addVarint(1).build());
    }
    assertEquals(
        "too_many_parts: more than " + Parts.MAX,
        refusal(closing().setUnknownFields(unknown.build())));
  }

  private static Alert.Builder alert() {
    return Alert.newBuilder()
        .setMajor(Checks.MAJOR)
        .setProbe("alpha")
        .setId("1")
        .setReason("order_refused")
        .setSeverity(Severity.SEVERITY_WARNING)
        .setOpenedMs(START_MS)
        .setUpdatedMs(START_MS)
        .putValues("packets", 7);
  }

  private static String refusal(Alert.Builder alert) {
    try {
      Checks.alert(
          new RawMessage("weir.alerts.alpha", 0, 0, START_MS, alert.build().toByteArray()));
      return "";
    } catch (Checks.Refused e) {
      return e.getMessage();
    }
  }

  @Test
  void anAlertConcernsItsOwnProbe() {
    assertEquals("", refusal(alert()));
    assertEquals("wrong_probe: beta on the topic of alpha", refusal(alert().setProbe("beta")));
    assertEquals("wrong_probe:  on the topic of alpha", refusal(alert().setProbe("")));
  }

  @Test
  void anAlertHasValuesThatItsColumnsHold() {
    assertEquals("major: 2, understood is 1", refusal(alert().setMajor(2)));
    assertEquals("bad_record: severity 9", refusal(alert().setSeverityValue(9)));
    String onlyJobs = "bad_record: probes or a query, which only the jobs state";
    assertEquals(onlyJobs, refusal(alert().setQuery("SELECT 1")));
    assertEquals(onlyJobs, refusal(alert().putProbes("beta", 1)));
    assertEquals(
        "", refusal(alert().putPeers("2001:db8::1", 1).addPorts(22).setTechnique("T1046")));
    assertEquals(
        "bad_record: a peer that is not an address", refusal(alert().putPeers("' OR 1", 1)));
    assertEquals(
        "bad_record: a technique that is not like T1046 or T1498.001",
        refusal(alert().setTechnique("T1")));
    assertEquals(
        "bad_record: a kind of subject that is not a short word",
        refusal(alert().setSubjectKind("a b")));
    assertEquals("bad_record: a score or threshold of NaN", refusal(alert().setScore(Double.NaN)));
    assertEquals(
        "bad_record: more than 10 peers or ports",
        refusal(alert().addAllPorts(java.util.Collections.nCopies(11, 22))));
    assertEquals("bad_record: a reason that is not in snake case", refusal(alert().setReason("A")));
    String noId = "bad_record: an id of no or more than 255 characters";
    assertEquals(noId, refusal(alert().setId("")));
    assertEquals(noId, refusal(alert().setId("x".repeat(256))));
    assertEquals("bad_record: time 18446744073709551615 ms", refusal(alert().setOpenedMs(-1)));
    for (double value : new double[] {-1, Double.NaN, Double.POSITIVE_INFINITY, 0x1p63}) {
      assertEquals("bad_record: value " + value, refusal(alert().putValues("packets", value)));
    }
  }

  @Test
  void anAlertTakesLittleRoomAndFewPartitions() {
    assertEquals("", refusal(alert().setText("x".repeat(1_000))));
    assertEquals(
        "bad_record: a text of more than 1000 characters",
        refusal(alert().setText("x".repeat(1_001))));
    assertEquals(
        "bad_record: a subject of more than 255 characters",
        refusal(alert().setSubject("x".repeat(256))));
    assertEquals(
        "bad_record: an alert of more than 4096 octets",
        refusal(alert().setText("x".repeat(4 << 10))));
    assertEquals(
        "bad_record: the name of a value that is not in snake case",
        refusal(alert().putValues("A b", 7)));
    Alert.Builder many = alert();
    IntStream.range(0, 16).forEach(i -> many.putValues("v" + i, i));
    assertEquals("bad_record: more than 16 values", refusal(many));
    long day = 86_400_000;
    assertEquals("", refusal(alert().setOpenedMs(START_MS - 31 * day)));
    assertEquals("", refusal(alert().setClosedMs(START_MS + day)));
    for (long time : new long[] {START_MS - 31 * day - 1, START_MS + day + 1, 0}) {
      String cause = "bad_record: time " + time + " ms";
      assertEquals(cause, refusal(alert().setOpenedMs(time)));
      assertEquals(cause, refusal(alert().setUpdatedMs(time)));
      assertEquals(time == 0 ? "" : cause, refusal(alert().setClosedMs(time)));
    }
  }
}
