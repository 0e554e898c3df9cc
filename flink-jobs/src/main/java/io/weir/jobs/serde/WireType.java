package io.weir.jobs.serde;

import org.apache.flink.api.common.serialization.SerializerConfig;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeutils.TypeSerializer;

/** Makes Flink serialise a type with its {@link WireSerializer}. */
public final class WireType<T> extends TypeInformation<T> {
  private static final long serialVersionUID = 1;

  private final Class<T> type;
  private final WireSerializer<T> serializer;

  public WireType(Class<T> type, WireSerializer<T> serializer) {
    this.type = type;
    this.serializer = serializer;
  }

  /** For a record whose components {@link RecordSerializer} writes. */
  public static <T extends Record> WireType<T> ofRecord(Class<T> type) {
    return new WireType<>(type, new RecordSerializer<>(type));
  }

  /** The serializer of the type, for messages and for state. */
  public WireSerializer<T> serializer() {
    return serializer;
  }

  @Override
  public boolean isBasicType() {
    return false;
  }

  @Override
  public boolean isTupleType() {
    return false;
  }

  @Override
  public int getArity() {
    return 1;
  }

  @Override
  public int getTotalFields() {
    return 1;
  }

  @Override
  public Class<T> getTypeClass() {
    return type;
  }

  @Override
  public boolean isKeyType() {
    return false;
  }

  @Override
  public TypeSerializer<T> createSerializer(SerializerConfig config) {
    return serializer;
  }

  @Override
  public String toString() {
    return "WireType(" + type.getSimpleName() + ")";
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof WireType<?> that && that.type == type;
  }

  @Override
  public int hashCode() {
    return type.hashCode();
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof WireType;
  }
}
