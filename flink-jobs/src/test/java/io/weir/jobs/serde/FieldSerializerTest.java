package io.weir.jobs.serde;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.weir.proto.Alert;
import io.weir.proto.ClosingRecord;
import java.io.IOException;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.runtime.execution.SuppressRestartsException;
import org.apache.flink.util.InstantiationUtil;
import org.junit.jupiter.api.Test;

/** State is read back unchanged, even by a later version of its class. */
class FieldSerializerTest {
  enum Side {
    LEFT,
    RIGHT
  }

  record Point(long x, Alert said) {}

  static final class Inner {
    long count = 3;
    final TreeMap<Integer, long[]> numbers = new TreeMap<>();
  }

  static final class Value {
    long number;
    int small = 7;
    boolean yes;
    String text = "";
    byte[] octets = {};
    Alert alert;
    transient long since;
    final Inner inner = new Inner();
    final TreeMap<Long, Inner> byTime = new TreeMap<>();
    final TreeMap<String, TreeMap<Integer, Point>> nested = new TreeMap<>();
    final TreeSet<Long> open = new TreeSet<>();
    final EnumMap<Side, Inner> sides = new EnumMap<>(Map.of(Side.LEFT, new Inner()));
  }

  private static Value value() {
    Value value = new Value();
    value.number = Long.MIN_VALUE;
    value.small = -1;
    value.yes = true;
    value.text = "ä\0";
    value.octets = new byte[] {1, 2};
    value.alert = Alert.newBuilder().setText("x").build();
    value.since = 99;
    value.inner.count = 4;
    value.inner.numbers.put(1, new long[] {5, 6});
    value.byTime.put(10L, new Inner());
    value.byTime.get(10L).count = 11;
    value.nested.put("a", new TreeMap<>(Map.of(2, new Point(8, null))));
    value.open.addAll(List.of(1L, 3L));
    value.sides.get(Side.LEFT).count = 12;
    return value;
  }

  private static void check(Value read, long since) {
    assertEquals(Long.MIN_VALUE, read.number);
    assertEquals(-1, read.small);
    assertTrue(read.yes);
    assertEquals("ä\0", read.text);
    assertEquals(2, read.octets[1]);
    assertEquals("x", read.alert.getText());
    assertEquals(since, read.since);
    assertEquals(4, read.inner.count);
    assertEquals(6, read.inner.numbers.get(1)[1]);
    assertEquals(11, read.byTime.get(10L).count);
    assertEquals(new Point(8, null), read.nested.get("a").get(2));
    assertEquals(List.of(1L, 3L), new ArrayList<>(read.open));
    assertEquals(12, read.sides.get(Side.LEFT).count);
    assertEquals(1, read.sides.size());
  }

  private static byte[] written(Object value, TypeSerializer<Object> by) throws IOException {
    DataOutputSerializer out = new DataOutputSerializer(64);
    by.serialize(value, out);
    return out.getCopyOfBuffer();
  }

  @Test
  void readsWhatItWroteAndCopiesMore() throws Exception {
    FieldSerializer<Value> serializer = new FieldSerializer<>(Value.class);
    DataOutputSerializer out = new DataOutputSerializer(64);
    serializer.serialize(value(), out);
    check(serializer.deserialize(new DataInputDeserializer(out.getCopyOfBuffer())), 0);
    check(serializer.copy(value()), 99);
    check(InstantiationUtil.clone(serializer).copy(value()), 99);
  }

  @Test
  void aCopyIsApart() {
    Value from = value();
    Value copy = new FieldSerializer<>(Value.class).copy(from);
    from.inner.numbers.get(1)[1] = 0;
    from.byTime.get(10L).count = 0;
    from.open.clear();
    check(copy, 99);
  }

  static final class Before {
    long kept = 1;
    Inner gone = new Inner();
    final TreeMap<Long, Point> goneToo = new TreeMap<>();
    String last = "";
  }

  static final class After {
    String last = "";
    long added = 5;
    long kept;
  }

  static final class Other {
    int kept;
  }

  @Test
  void aLaterVersionReadsWhatItKnows() throws IOException {
    Before before = new Before();
    before.kept = 6;
    before.gone.numbers.put(1, new long[3]);
    before.goneToo.put(4L, new Point(3, Alert.getDefaultInstance()));
    before.last = "z";
    byte[] state = written(before, new FieldSerializer<Object>(type(Before.class)));
    Layout old = Layout.of(Before.class, false);
    assertEquals(Optional.empty(), Layout.of(After.class, false).refuses(old));
    After after =
        new FieldSerializer<>(After.class, old).deserialize(new DataInputDeserializer(state));
    assertEquals(List.of("z", 5L, 6L), List.of(after.last, after.added, after.kept));
    assertEquals(
        Optional.of("kept was of kind long, and is of kind int"),
        Layout.of(Other.class, false).refuses(old));
    assertTrue(Layout.of(After.class, false).refuses(old.marked("2")).isPresent());
  }

  record Old(Side side) {}

  record Fewer(OneSide side) {}

  enum OneSide {
    LEFT
  }

  record Said(Alert message) {}

  record SaidOtherwise(ClosingRecord message) {}

  @Test
  void anEnumWithoutAConstantAndAnotherMessageAreRefused() {
    assertFalse(refused(Old.class, Fewer.class));
    assertTrue(refused(Fewer.class, Old.class));
    assertTrue(refused(Said.class, SaidOtherwise.class));
  }

  private static boolean refused(Class<?> now, Class<?> before) {
    return Layout.of(now, false).refuses(Layout.of(before, false)).isPresent();
  }

  static class Parent {
    long inherited;
  }

  static final class Child extends Parent {
    long own;
  }

  static final class OwnMap<V> extends TreeMap<Long, V> {
    private static final long serialVersionUID = 1;
  }

  record OfOwnMap(OwnMap<Long> map) {}

  record OfShort(short number) {}

  record OfArray(Alert[] alerts) {}

  record OfDate(java.time.Instant when) {}

  record OfAnything(TreeMap<Long, ? extends Number> map) {}

  @Test
  void aTypeThatCannotBeWrittenWholeIsRefused() {
    for (Class<?> type :
        List.of(
            Child.class,
            OfOwnMap.class,
            OfShort.class,
            OfArray.class,
            OfDate.class,
            OfAnything.class)) {
      String said =
          assertThrows(IllegalArgumentException.class, () -> new FieldSerializer<>(type))
              .getMessage();
      assertTrue(said.startsWith("state"), said);
    }
  }

  static final class Filled {
    final TreeMap<Long, Inner> byTime = new TreeMap<>(Map.of(1L, new Inner(), 2L, new Inner()));
    final ArrayList<Long> numbers = new ArrayList<>(List.of(1L, 2L));
  }

  @Test
  void whatAConstructorPutIntoContainersDoesNotComeBack() throws IOException {
    Filled filled = new Filled();
    filled.byTime.remove(1L);
    filled.byTime.get(2L).count = 9;
    filled.numbers.remove(1L);
    FieldSerializer<Filled> serializer = new FieldSerializer<>(Filled.class);
    byte[] state = written(filled, new FieldSerializer<Object>(type(Filled.class)));
    for (Filled one :
        List.of(
            serializer.copy(filled), serializer.deserialize(new DataInputDeserializer(state)))) {
      assertEquals(List.of(2L), new ArrayList<>(one.byTime.keySet()));
      assertEquals(9, one.byTime.get(2L).count);
      assertEquals(List.of(2L), one.numbers);
    }
  }

  static final class Rich {
    final HashMap<String, long[]> numbers = new HashMap<>(Map.of("a", new long[3]));
    final TreeMap<Long, TreeMap<Side, Inner>> sides =
        new TreeMap<>(Map.of(3L, new TreeMap<>(Map.of(Side.LEFT, new Inner()))));
    final HashSet<Point> points = new HashSet<>(List.of(new Point(1, Alert.getDefaultInstance())));
    long last = 4;
  }

  static final class Poor {
    long last;
  }

  @Test
  void containersThatAreGoneArePassedOver() throws IOException {
    byte[] state = written(new Rich(), new FieldSerializer<Object>(type(Rich.class)));
    Poor poor =
        new FieldSerializer<>(Poor.class, Layout.of(Rich.class, false))
            .deserialize(new DataInputDeserializer(state));
    assertEquals(4, poor.last);
  }

  @SuppressWarnings("unchecked")
  private static Class<Object> type(Class<?> of) {
    return (Class<Object>) of;
  }

  record Two(long x, int more, Alert said, String text, byte[] octets, long[] numbers) {}

  @Test
  void aRecordWithAnotherComponentReadsAnOlderOne() throws IOException {
    byte[] state = written(new Point(7, null), new FieldSerializer<Object>(type(Point.class)));
    Two two =
        new FieldSerializer<>(Two.class, Layout.of(Point.class, false))
            .deserialize(new DataInputDeserializer(state));
    assertEquals(7, two.x);
    assertEquals(0, two.more);
    assertNull(two.said);
    assertEquals("", two.text);
    assertEquals(0, two.octets.length + two.numbers.length);
  }

  @Test
  void theSnapshotTellsTheLayout() throws IOException {
    FieldSerializer<Value> serializer = new FieldSerializer<>(Value.class);
    DataOutputSerializer out = new DataOutputSerializer(64);
    serializer.snapshotConfiguration().writeSnapshot(out);
    FieldSnapshot<Value> read = new FieldSnapshot<>();
    read.readSnapshot(
        1, new DataInputDeserializer(out.getCopyOfBuffer()), getClass().getClassLoader());
    assertTrue(
        serializer.snapshotConfiguration().resolveSchemaCompatibility(read).isCompatibleAsIs());
    assertTrue(
        serializer
            .snapshotConfiguration()
            .resolveSchemaCompatibility(ofOneLong("number"))
            .isCompatibleAfterMigration());
    String said =
        assertThrows(SuppressRestartsException.class, () -> restored(ofOneLong("inner")))
            .getCause()
            .getMessage();
    assertTrue(said.contains("inner was of kind long, and is of kind object"), said);
  }

  private static FieldSnapshot<Value> restored(FieldSnapshot<Value> written) throws IOException {
    DataOutputSerializer out = new DataOutputSerializer(64);
    written.writeSnapshot(out);
    FieldSnapshot<Value> read = new FieldSnapshot<>();
    read.readSnapshot(
        1,
        new DataInputDeserializer(out.getCopyOfBuffer()),
        FieldSerializerTest.class.getClassLoader());
    return read;
  }

  /** The snapshot of a {@link Value} that had one field, a long. */
  private static FieldSnapshot<Value> ofOneLong(String field) {
    Layout layout = new Layout("", Layout.OBJECT, List.of(new Layout(field, "long", List.of())));
    return new FieldSnapshot<>(new FieldSerializer<>(Value.class, layout));
  }
}
