import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/** Consumes a backlog with Java's push consumer: name server, topic, group, messages; the first tenth warms up. */
public final class PushConsume {
    private static volatile long began, cpu;

    public static void main(String[] arguments) throws Exception {
        long last = Long.parseLong(arguments[3]), first = last / 10;
        AtomicLong count = new AtomicLong();
        CountDownLatch done = new CountDownLatch(1);
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments[2]);
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(arguments[1], "*");
        consumer.registerMessageListener(
                (MessageListenerConcurrently)
                        (messages, context) -> {
                            long now = count.addAndGet(messages.size());
                            if (now == first) {
                                began = System.nanoTime();
                                cpu = system.getProcessCpuTime();
                            } else if (now == last) {
                                done.countDown();
                            }
                            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                        });
        consumer.start();
        done.await();
        double elapsed = (System.nanoTime() - began) / 1e9;
        System.out.printf(
                "{\"messages\": %d, \"rate\": %.1f, \"cpu_us\": %.3f}%n",
                last - first, (last - first) / elapsed, (system.getProcessCpuTime() - cpu) / 1e3 / (last - first));
        System.exit(0);
    }
}
