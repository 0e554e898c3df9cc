package io.weir.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.lang.reflect.Member;
import java.lang.reflect.Modifier;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.Arrays;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.apache.kafka.common.record.internal.CompressionType;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.slf4j.Logger;

/** What takes the place of Kafka's classes has all that they have. */
class ReplacedClassesTest {
  @ParameterizedTest
  @ValueSource(
      strings = {
        "compress.Compression",
        "network.NetworkReceive",
        "record.internal.ByteBufferLogInputStream"
      })
  void allMembersAreThere(String name) throws Exception {
    // Kafka's classes, and the logger that some have as a field.
    URL[] kafka = {place(CompressionType.class), place(Logger.class)};
    String full = "org.apache.kafka.common." + name;
    try (URLClassLoader alone = new URLClassLoader(kafka, null)) {
      Class<?> theirs = Class.forName(full, false, alone);
      Class<?> ours = Class.forName(full);
      assertEquals(alone, theirs.getClassLoader());
      assertEquals(members(theirs), members(ours));
    }
  }

  private static URL place(Class<?> type) {
    return type.getProtectionDomain().getCodeSource().getLocation();
  }

  private static Set<String> members(Class<?> type) {
    Set<String> found = new TreeSet<>();
    Stream.of(type.getDeclaredFields(), type.getDeclaredMethods(), type.getDeclaredConstructors())
        .flatMap(Arrays::stream)
        .map(Member.class::cast)
        .filter(member -> !member.isSynthetic() && !Modifier.isPrivate(member.getModifiers()))
        .forEach(member -> found.add(member.toString()));
    return found;
  }
}
