import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Sends with Kafka's own producer from one thread: address, topic, seconds, bytes of a body, linger in ms. */
public final class KafkaSend {
    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        double seconds = Double.parseDouble(arguments[2]);
        byte[] body = new byte[Integer.parseInt(arguments[3])];
        java.util.Arrays.fill(body, (byte) 'x');
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("acks", "1");
        settings.put("linger.ms", arguments[4]);
        settings.put("batch.size", String.valueOf(256 * 1024));
        settings.put("buffer.memory", String.valueOf(64 * 1024 * 1024));
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (double time : new double[] {3.0, seconds}) { // the first to warm up
                AtomicLong stored = new AtomicLong(), failed = new AtomicLong();
                OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
                long began = System.nanoTime(), cpu = system.getProcessCpuTime();
                while (System.nanoTime() - began < time * 1e9) {
                    producer.send(
                            new ProducerRecord<>(topic, body),
                            (place, error) -> (error == null ? stored : failed).incrementAndGet());
                }
                producer.flush();
                double elapsed = (System.nanoTime() - began) / 1e9;
                if (failed.get() > 0) {
                    throw new IllegalStateException(failed + " sends failed");
                }
                if (time == seconds) {
                    System.out.printf(
                            "{\"messages\": %d, \"rate\": %.1f, \"cpu_us\": %.3f}%n",
                            stored.get(),
                            stored.get() / elapsed,
                            (system.getProcessCpuTime() - cpu) / 1e3 / stored.get());
                }
            }
        }
    }
}
