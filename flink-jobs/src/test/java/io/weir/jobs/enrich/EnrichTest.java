package io.weir.jobs.enrich;

import static org.assertj.core.api.Assertions.assertThat;

import com.google.protobuf.ByteString;
import io.weir.jobs.Stage;
import io.weir.jobs.message.Accepted;
import io.weir.jobs.message.Direction;
import io.weir.jobs.message.Enrichment;
import io.weir.jobs.message.RawMessage;
import io.weir.jobs.privacy.Privacy;
import io.weir.proto.Flow;
import io.weir.proto.FlowBatch;
import io.weir.proto.FlowMessage;
import io.weir.proto.Prefix;
import io.weir.proto.Probe;
import io.weir.proto.Pseudonyms;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import org.apache.flink.streaming.api.operators.ProcessOperator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class EnrichTest {
  @TempDir Path folder;

  private static final int NORWAY = ('N' << 8) | 'O';
  private static final int SWEDEN = ('S' << 8) | 'E';

  /** A flow from an address that is declared, into another country. */
  private static Flow flow(Pseudonyms pseudonyms) throws Exception {
    return Flow.newBuilder()
        .setSrcAddr(ByteString.copyFrom(InetAddress.getByName("198.51.100.7").getAddress()))
        .setDstAddr(ByteString.copyFrom(InetAddress.getByName("203.0.113.9").getAddress()))
        .setPseudonyms(pseudonyms)
        .build();
  }

  @Test
  void nothingIsLookedUpByAPseudonym() throws Exception {
    DeclaredLookups lookups = new DeclaredLookups();
    Prefix prefix =
        Prefix.newBuilder()
            .setMajor(1)
            .setPrefix("198.51.100.0/24")
            .setSite("oslo")
            .setSiteId(1)
            .setNational(true)
            .setId(3)
            .setCustomerId(5)
            .build();
    lookups.take(new RawMessage(Declarations.PREFIXES, 0, 0, 0, prefix.toByteArray()));
    Probe probe = Probe.newBuilder().setMajor(1).setName("edge").setSite("oslo").build();
    lookups.take(new RawMessage(Declarations.PROBES, 0, 0, 0, probe.toByteArray()));
    FlowBatch.Builder batch = FlowBatch.newBuilder();
    for (int which = 0; which < 4; which++) {
      batch.addFlows(flow(Pseudonyms.forNumber(which)));
    }
    Enrichment found =
        Enrich.enrichment(
            FlowMessage.newBuilder().setProbe("edge").setBatch(batch).build(), lookups.now());
    assertThat(found.srcAs).containsExactly(64500, 0, 64500, 0);
    assertThat(found.dstAs).containsExactly(64501, 64501, 0, 0);
    assertThat(found.srcCountry)
        .containsExactly((short) NORWAY, (short) 0, (short) NORWAY, (short) 0);
    assertThat(found.dstCountry)
        .containsExactly((short) SWEDEN, (short) SWEDEN, (short) 0, (short) 0);
    assertThat(found.srcPrefix).containsExactly(3, 0, 3, 0);
    assertThat(found.srcCustomer).containsExactly(5, 0, 5, 0);
    assertThat(Direction.ofSite(found.ends[0])).isEqualTo(Direction.OUT);
    assertThat(Direction.ofNation(found.ends[0])).isEqualTo(Direction.OUT);
    for (int which = 1; which < 4; which++) {
      assertThat(Direction.ofSite(found.ends[which])).isEqualTo(Direction.UNKNOWN);
      assertThat(Direction.ofNation(found.ends[which])).isEqualTo(Direction.UNKNOWN);
    }
  }

  /** The record that leaves jobs that hold a key, of a probe that claims pseudonyms. */
  private Flow claimed(boolean declared, Flow flow) throws Exception {
    DeclaredLookups lookups = new DeclaredLookups();
    Probe probe = Probe.newBuilder().setMajor(1).setName("edge").setPseudonyms(declared).build();
    lookups.take(new RawMessage(Declarations.PROBES, 0, 0, 0, probe.toByteArray()));
    Path key = folder.resolve("privacy.key");
    Files.writeString(key, "a key of tests, and no other one");
    Files.setPosixFilePermissions(key, PosixFilePermissions.fromString("rw-------"));
    Privacy privacy = new Privacy(key.toString(), 0, true);
    FlowBatch batch = FlowBatch.newBuilder().addFlows(flow).build();
    FlowMessage message = FlowMessage.newBuilder().setProbe("edge").setBatch(batch).build();
    try (Stage<Accepted, Accepted> stage =
        Stage.of(
            () -> new ProcessOperator<>(new Enrich(lookups.factory(), privacy)), Accepted.TYPE)) {
      return stage
          .give(new Accepted(message, null, null, 0, 0))
          .get(0)
          .flow()
          .getBatch()
          .getFlows(0);
    }
  }

  @Test
  void pseudonymsOfADeclaredProbeAloneAreBelieved() throws Exception {
    Flow claim = flow(Pseudonyms.PSEUDONYMS_BOTH);
    assertThat(claimed(true, claim)).isEqualTo(claim);
    Flow hidden = claimed(false, flow(Pseudonyms.PSEUDONYMS_UNSPECIFIED));
    assertThat(hidden.getSrcAddr()).isNotEqualTo(claim.getSrcAddr());
    for (Pseudonyms which :
        List.of(
            Pseudonyms.PSEUDONYMS_SOURCE,
            Pseudonyms.PSEUDONYMS_DESTINATION,
            Pseudonyms.PSEUDONYMS_BOTH)) {
      assertThat(claimed(false, flow(which))).isEqualTo(hidden);
    }
  }
}
