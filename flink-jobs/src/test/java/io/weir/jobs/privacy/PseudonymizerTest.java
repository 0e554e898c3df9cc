package io.weir.jobs.privacy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.google.protobuf.ByteString;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import io.weir.proto.Columns;
import io.weir.proto.ExporterName;
import io.weir.proto.Flow;
import io.weir.proto.FlowBatch;
import io.weir.proto.FlowMessage;
import io.weir.proto.NatEvent;
import io.weir.proto.Pseudonyms;
import java.io.IOException;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class PseudonymizerTest {
  private static final long DAY_MS = 86_400_000;
  private static final byte[] REAL_4 = {(byte) 192, 0, 2, 7};

  @TempDir Path folder;

  private String keyFile(String text, String permissions) throws IOException {
    Path file = folder.resolve("privacy.key");
    Files.writeString(file, text);
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString(permissions));
    return file.toString();
  }

  /** Of the key of the tests of {@code capture/src/privacy/mod.rs}, whose periods are days. */
  private Pseudonymizer pseudonymizer(boolean names) throws IOException {
    String file = keyFile("a key of tests, and no other one", "rw-------");
    return new Pseudonymizer(new Privacy(file, DAY_MS, names));
  }

  private static byte[] octets(String address) throws IOException {
    return InetAddress.getByName(address).getAddress();
  }

  private static FlowMessage message(FlowBatch.Builder batch) {
    return FlowMessage.newBuilder().setIntervalStartMs(20_000 * DAY_MS + 7).setBatch(batch).build();
  }

  /** A message in which each field that can hold an address does, and each text and MAC is set. */
  private static void fill(Message.Builder of) {
    for (FieldDescriptor field : of.getDescriptorForType().getFields()) {
      if (field.getJavaType() == FieldDescriptor.JavaType.MESSAGE) {
        if (!field.isRepeated()) {
          Message.Builder inner = of.newBuilderForField(field);
          fill(inner);
          of.setField(field, inner.build());
        }
      } else if (isAddress(field)) {
        of.setField(field, ByteString.copyFrom(REAL_4));
      } else if (field.getJavaType() == FieldDescriptor.JavaType.STRING) {
        of.setField(field, "anna");
      } else if (field.getName().endsWith("_mac")) {
        of.setField(field, 0x0211_2233_4455L);
      }
    }
  }

  private static boolean isAddress(FieldDescriptor field) {
    return field.getOptions().getExtension(Columns.column).getType().equals("IPv6");
  }

  /** The fields that still hold what {@link #fill} wrote. */
  private static List<String> left(Message of) {
    List<String> left = new ArrayList<>();
    of.getAllFields()
        .forEach(
            (field, value) -> {
              if (value instanceof Message inner) {
                left.addAll(left(inner));
              } else if (ByteString.copyFrom(REAL_4).equals(value)
                  || "anna".equals(value)
                  || field.getName().endsWith("_mac")) {
                left.add(field.getName());
              }
            });
    return left;
  }

  @Test
  void theVectorsOfAgentAndCommandComeOut() throws IOException {
    Flow flow =
        Flow.newBuilder()
            .setSrcAddr(ByteString.copyFrom(REAL_4))
            .setDstAddr(ByteString.copyFrom(octets("2001:db8::7")))
            .build();
    Pseudonymizer pseudonymizer = pseudonymizer(false);
    FlowMessage given = message(FlowBatch.newBuilder().addFlows(flow));
    Flow hidden = pseudonymizer.hide(given).getBatch().getFlows(0);
    assertThat(hidden.getSrcAddr().toByteArray()).isEqualTo(octets("62.4.233.236"));
    assertThat(hidden.getDstAddr().toByteArray())
        .isEqualTo(octets("9e0d:2347:77fb:78:fe00:37ff:807f:fff7"));
    assertThat(hidden.getPseudonyms()).isEqualTo(Pseudonyms.PSEUDONYMS_BOTH);
    FlowMessage next = given.toBuilder().setIntervalStartMs(20_001 * DAY_MS).build();
    assertThat(pseudonymizer.hide(next).getBatch().getFlows(0).getSrcAddr())
        .isNotEqualTo(hidden.getSrcAddr());
    assertThat(pseudonymizer.hide(given).getBatch().getFlows(0)).isEqualTo(hidden);
  }

  /** Whatever field of an address, a name or a MAC address is added, it must be handled here. */
  @Test
  void noFieldIsForgotten() throws IOException {
    Flow.Builder flow = Flow.newBuilder();
    fill(flow);
    NatEvent.Builder event = NatEvent.newBuilder();
    fill(event);
    ExporterName.Builder name = ExporterName.newBuilder();
    fill(name);
    assertThat(left(flow.build())).hasSizeGreaterThan(10);
    FlowMessage given =
        message(FlowBatch.newBuilder().addFlows(flow).addNatEvents(event).addNames(name));
    FlowBatch hidden = pseudonymizer(false).hide(given).getBatch();
    List<String> exporter = List.of("exporter_addr");
    assertThat(left(hidden.getFlows(0))).isEqualTo(exporter);
    assertThat(left(hidden.getNatEvents(0))).isEqualTo(exporter);
    assertThat(left(hidden.getNames(0))).isEqualTo(exporter);
    FlowBatch named = pseudonymizer(true).hide(given).getBatch();
    assertThat(left(named.getFlows(0)))
        .containsExactlyInAnyOrder(
            "exporter_addr", "server_name", "dns_query", "src_mac", "dst_mac");
  }

  @Test
  void whatTheAgentReplacedStays() throws IOException {
    ByteString real = ByteString.copyFrom(REAL_4);
    Flow flow =
        Flow.newBuilder()
            .setSrcAddr(real)
            .setDstAddr(real)
            .setPseudonyms(Pseudonyms.PSEUDONYMS_SOURCE)
            .build();
    Flow hidden =
        pseudonymizer(false)
            .hide(message(FlowBatch.newBuilder().addFlows(flow)))
            .getBatch()
            .getFlows(0);
    assertThat(hidden.getSrcAddr()).isEqualTo(real);
    assertThat(hidden.getDstAddr()).isNotEqualTo(real);
    assertThat(hidden.getPseudonyms()).isEqualTo(Pseudonyms.PSEUDONYMS_BOTH);
    // An overflow record that names no destination has none.
    Flow half = Flow.newBuilder().setSrcAddr(real).build();
    Flow told =
        pseudonymizer(false)
            .hide(message(FlowBatch.newBuilder().addFlows(half)))
            .getBatch()
            .getFlows(0);
    assertThat(told.getPseudonyms()).isEqualTo(Pseudonyms.PSEUDONYMS_SOURCE);
    assertThat(told.getDstAddr().isEmpty()).isTrue();
  }

  @Test
  void aKeyIsItsOwnersFileAndNoMessageQuotesIt() throws IOException {
    String good = "0x" + "0aF0".repeat(16) + "\n";
    assertThat(new Privacy(keyFile(good, "r--------"), 0, false).master()).hasSize(32);
    for (String permissions : List.of("rw-r-----", "rw----r--")) {
      Privacy readable = new Privacy(keyFile(good, permissions), 0, false);
      assertThatThrownBy(readable::master).hasMessageContaining("chmod 600");
    }
    for (String wrong : List.of("secret", "0x00", "0x" + "0g".repeat(32))) {
      Privacy none = new Privacy(keyFile(wrong, "rw-------"), 0, false);
      assertThatThrownBy(none::master)
          .hasMessageContaining("holds no key")
          .hasMessageNotContaining(wrong);
    }
  }
}
