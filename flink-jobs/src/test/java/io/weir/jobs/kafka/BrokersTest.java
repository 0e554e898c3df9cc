package io.weir.jobs.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class BrokersTest {
  @TempDir Path folder;

  @Test
  void aPasswordStaysInItsFileUntilAClientReadsIt() throws IOException {
    Path file = folder.resolve("kafka.properties");
    Files.writeString(file, "security.protocol=SSL\nssl.key.password=secret-word\n");

    Properties properties = new Brokers("kafka.example:9092", file.toString()).properties();

    assertFalse(properties.toString().contains("secret-word"), properties::toString);
    properties.setProperty("key.deserializer", ByteArrayDeserializer.class.getName());
    properties.setProperty("value.deserializer", ByteArrayDeserializer.class.getName());
    ConsumerConfig seen = new ConsumerConfig(properties);
    assertEquals("secret-word", seen.getPassword("ssl.key.password").value());
    assertEquals("SSL", seen.getString("security.protocol"));
    assertEquals("[kafka.example:9092]", seen.getList("bootstrap.servers").toString());
  }

  @Test
  void aClientReadsTheFileAnewEachTime() throws IOException {
    Path file = folder.resolve("kafka.properties");
    Files.writeString(file, "ssl.key.password=first\n");
    Properties properties = new Brokers("kafka.example:9092", file.toString()).properties();
    Files.writeString(file, "ssl.key.password=second\n");
    properties.setProperty("key.deserializer", ByteArrayDeserializer.class.getName());
    properties.setProperty("value.deserializer", ByteArrayDeserializer.class.getName());
    assertEquals("second", new ConsumerConfig(properties).getPassword("ssl.key.password").value());
  }

  @Test
  void tokensMayBeFetchedWhereTheFileSaysUnlessTheOperatorPermitsOtherPlaces() throws IOException {
    String allowed = "org.apache.kafka.sasl.oauthbearer.allowed.urls";
    Path file = folder.resolve("kafka.properties");
    Files.writeString(file, "sasl.oauthbearer.token.endpoint.url=https://issuer.example/token\n");
    Brokers brokers = new Brokers("kafka.example:9092", file.toString());
    String before = System.getProperty(allowed);
    try {
      System.clearProperty(allowed);
      brokers.properties();
      assertEquals("https://issuer.example/token", System.getProperty(allowed));
      System.setProperty(allowed, "https://another.example/token");
      brokers.properties();
      assertEquals("https://another.example/token", System.getProperty(allowed));
    } finally {
      if (before == null) {
        System.clearProperty(allowed);
      } else {
        System.setProperty(allowed, before);
      }
    }
  }

  @Test
  void aFileThatCannotBeUsedIsAComplaint() {
    assertEquals("", new Brokers("kafka.example:9092", "").complaint());
    String absent = folder.resolve("absent").toString();
    assertTrue(new Brokers("kafka.example:9092", absent).complaint().contains("cannot be read"));
    assertTrue(new Brokers("kafka.example:9092", "/a:b").complaint().contains("none of"));
  }
}
