package io.weir.jobs.serde;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.List;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.runtime.execution.SuppressRestartsException;
import org.apache.flink.util.InstantiationUtil;
import org.junit.jupiter.api.Test;

class RecordSerializerTest {
  enum Kind {
    ONE,
    TWO
  }

  record Inner(String name, Kind kind) {}

  record Outer(int number, long length, byte[] bytes, long[] longs, List<Inner> inner, Inner last) {
    static final WireType<Outer> TYPE = WireType.ofRecord(Outer.class);
  }

  record WithoutLast(int number, long length, byte[] bytes, long[] longs, List<Inner> inner) {}

  record OfAnObject(Object any) {}

  private static final Outer VALUE =
      new Outer(
          -1,
          Long.MIN_VALUE,
          new byte[] {1, 2},
          new long[] {3, -4},
          List.of(new Inner("ä", Kind.TWO), new Inner("", Kind.ONE)),
          new Inner("last", Kind.ONE));

  private static void readsWhatItWrites(WireSerializer<Outer> serializer) throws IOException {
    DataOutputSerializer out = new DataOutputSerializer(64);
    serializer.write(VALUE, out);
    Outer read = serializer.read(new DataInputDeserializer(out.getCopyOfBuffer()));
    assertEquals(VALUE.number, read.number);
    assertEquals(VALUE.length, read.length);
    assertArrayEquals(VALUE.bytes, read.bytes);
    assertArrayEquals(VALUE.longs, read.longs);
    assertEquals(VALUE.inner, read.inner);
    assertEquals(VALUE.last, read.last);
  }

  /** The snapshot of {@code of}, written and read, with {@code form} in place of its own form. */
  private static <T> WireSnapshot<T> restored(WireSerializer<T> of, String form)
      throws IOException {
    DataOutputSerializer out = new DataOutputSerializer(64);
    out.writeUTF(of.named().getName());
    out.writeUTF(form);
    WireSnapshot<T> snapshot = new WireSnapshot<>();
    snapshot.readSnapshot(
        2,
        new DataInputDeserializer(out.getCopyOfBuffer()),
        RecordSerializerTest.class.getClassLoader());
    return snapshot;
  }

  @Test
  void readsWhatItWrites() throws Exception {
    readsWhatItWrites(Outer.TYPE.serializer());
    readsWhatItWrites(InstantiationUtil.clone(Outer.TYPE.serializer()));
  }

  @Test
  void stateIsReadInTheFormThatItWasWrittenIn() throws Exception {
    WireSerializer<Outer> serializer = Outer.TYPE.serializer();
    DataOutputSerializer out = new DataOutputSerializer(64);
    TypeSerializerSnapshot.writeVersionedSnapshot(out, serializer.snapshotConfiguration());
    TypeSerializerSnapshot<Outer> old =
        TypeSerializerSnapshot.readVersionedSnapshot(
            new DataInputDeserializer(out.getCopyOfBuffer()), getClass().getClassLoader());
    readsWhatItWrites((WireSerializer<Outer>) old.restoreSerializer());
    assertTrue(
        serializer.snapshotConfiguration().resolveSchemaCompatibility(old).isCompatibleAsIs());
  }

  @Test
  void stateInAnotherFormIsRefused() throws Exception {
    WireSerializer<Outer> serializer = Outer.TYPE.serializer();
    String shorter = new RecordSerializer<>(WithoutLast.class).form();
    assertTrue(serializer.form().startsWith(shorter.substring(0, shorter.length() - 1)), shorter);
    String said =
        assertThrows(SuppressRestartsException.class, () -> restored(serializer, shorter))
            .getCause()
            .getMessage();
    assertTrue(said.contains("RecordSerializerTest$Outer") && said.contains(shorter), said);
    DataOutputSerializer out = new DataOutputSerializer(64);
    out.writeUTF("of.Before");
    DataInputDeserializer in = new DataInputDeserializer(out.getCopyOfBuffer());
    assertThrows(
        SuppressRestartsException.class,
        () -> new WireSnapshot<Outer>().readSnapshot(1, in, getClass().getClassLoader()));
  }

  @Test
  void refusesATypeThatItCannotWrite() {
    assertThrows(IllegalArgumentException.class, () -> new RecordSerializer<>(OfAnObject.class));
  }
}
