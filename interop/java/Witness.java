import com.alibaba.fastjson.JSON;
import java.io.FileOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * A producer and a consumer that write down what they do and see, in the form of the campaigns' journals
 * (tests/faults/journal.py). Times are of the machine's monotonic clock, which all its processes share.
 */
final class Witness {
    private static final String BY = "java";
    private static final int RETRIES = 2;
    private static Witness running;

    private final FileOutputStream journal;
    private final String topic;
    private final String group;
    private final int period;
    private final DefaultMQProducer producer;
    private final DefaultMQPushConsumer consumer;
    private final Thread sender = new Thread(this::sendOn, "witness");
    private volatile boolean isOver;

    private Witness(Call call) throws Exception {
        journal = new FileOutputStream(call.text("journal"), true);
        topic = call.text("topic");
        group = call.text("group");
        period = call.number("period", 100);
        producer = call.configure(new DefaultMQProducer("java-witness"));
        producer.setRetryTimesWhenSendFailed(RETRIES);
        producer.setSendMsgTimeout(2_000);
        producer.start();
        consumer = call.configure(new DefaultMQPushConsumer(group));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) this::consume);
        consumer.start();
        sender.start();
    }

    static Object start(Call call) throws Exception {
        running = new Witness(call);
        return null;
    }

    /** Send nothing more; what is stored is still consumed. */
    static Object rest(Call call) throws Exception {
        running.isOver = true;
        running.sender.join();
        return null;
    }

    static Object stop(Call call) throws Exception {
        rest(call);
        running.producer.shutdown();
        running.consumer.shutdown();
        running.journal.close();
        return null;
    }

    private void sendOn() {
        try {
            for (int number = 0; !isOver; number++) {
                send(BY + "-" + number);
                Thread.sleep(period);
            }
        } catch (InterruptedException | IOException failure) {
            throw new IllegalStateException(failure);
        }
    }

    private void send(String value) throws InterruptedException, IOException {
        Map<String, Object> attempt = event("attempted", value);
        attempt.put("topic", topic);
        attempt.put("copies", RETRIES + 1);
        write(attempt);
        Map<String, Object> answer;
        try {
            SendResult result = producer.send(new Message(topic, (value + "|").getBytes(StandardCharsets.UTF_8)));
            answer = event("answered", value);
            answer.put("status", result.getSendStatus().name());
            answer.put("queue", queue(result.getMessageQueue()));
            answer.put("offset", result.getQueueOffset());
            answer.put("node", node(result.getOffsetMsgId()));
        } catch (InterruptedException failure) {
            throw failure;
        } catch (Exception failure) {
            answer = event("answered", value);
            answer.put("status", "raised");
            answer.put("error", failure.getClass().getSimpleName());
        }
        write(answer);
    }

    private ConsumeConcurrentlyStatus consume(List<MessageExt> messages, ConsumeConcurrentlyContext context) {
        for (MessageExt message : messages) {
            String value = new String(message.getBody(), StandardCharsets.UTF_8).split("\\|", 2)[0];
            for (String kind : new String[] {"delivered", "finished"}) {
                Map<String, Object> event = event(kind, value);
                event.put("group", group);
                event.put("queue", queue(context.getMessageQueue()));
                event.put("offset", message.getQueueOffset());
                event.put("times", message.getReconsumeTimes());
                try {
                    write(event);
                } catch (IOException failure) {
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
            }
        }
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
    }

    private static String node(String offsetMessageId) throws Exception {
        InetSocketAddress address = (InetSocketAddress) MessageDecoder.decodeMessageId(offsetMessageId).getAddress();
        return address.getAddress().getHostAddress() + ":" + address.getPort();
    }

    private static Object[] queue(MessageQueue queue) {
        return new Object[] {queue.getTopic(), queue.getBrokerName(), queue.getQueueId()};
    }

    private static Map<String, Object> event(String kind, String value) {
        Map<String, Object> event = new LinkedHashMap<>();
        event.put("event", kind);
        event.put("at", System.nanoTime() / 1e9);
        event.put("by", BY);
        event.put("value", value);
        return event;
    }

    private void write(Map<String, Object> event) throws IOException {
        byte[] line = (JSON.toJSONString(event) + "\n").getBytes(StandardCharsets.UTF_8);
        synchronized (journal) {
            journal.write(line);
        }
    }
}
