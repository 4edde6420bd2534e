import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Lite pull consumers: one that reads and is gone, and such that live from `start` to `stop`. */
final class Lite {
    private static final Map<String, DefaultLitePullConsumer> RUNNING = new HashMap<>();

    private Lite() {
    }

    /** Subscribe, poll until `count` messages came, and commit them. */
    static Object read(Call call) throws Exception {
        DefaultLitePullConsumer consumer = configured(call);
        consumer.subscribe(call.text("topic"), call.selector());
        consumer.start();
        try {
            List<MessageExt> found = poll(consumer, call);
            if (!call.flag("auto_commit")) {
                consumer.commitSync();
            }
            return Facts.ofMessages(found);
        } finally {
            consumer.shutdown();
        }
    }

    /** Begin with all queues of a topic assigned. */
    static Object start(Call call) throws Exception {
        DefaultLitePullConsumer consumer = configured(call);
        consumer.start();
        consumer.assign(consumer.fetchMessageQueues(call.text("topic")));
        RUNNING.put(call.text("name"), consumer);
        return null;
    }

    static Object stop(Call call) {
        RUNNING.remove(call.text("name")).shutdown();
        return null;
    }

    /** Poll until `count` messages came, or the time is over. */
    static Object poll(Call call) {
        return Facts.ofMessages(poll(RUNNING.get(call.text("name")), call));
    }

    static Object seek(Call call) throws Exception {
        RUNNING.get(call.text("name")).seek(queue(call), call.large("offset", 0));
        return null;
    }

    static Object seekToBegin(Call call) throws Exception {
        RUNNING.get(call.text("name")).seekToBegin(queue(call));
        return null;
    }

    static Object seekToEnd(Call call) throws Exception {
        RUNNING.get(call.text("name")).seekToEnd(queue(call));
        return null;
    }

    static Object offsetForTime(Call call) throws Exception {
        return RUNNING.get(call.text("name")).offsetForTimestamp(queue(call), call.large("time", 0));
    }

    static Object pause(Call call) {
        RUNNING.get(call.text("name")).pause(List.of(queue(call)));
        return null;
    }

    static Object resume(Call call) {
        RUNNING.get(call.text("name")).resume(List.of(queue(call)));
        return null;
    }

    /** Commit what was polled, and return what the broker has then. */
    static Object commit(Call call) throws Exception {
        DefaultLitePullConsumer consumer = RUNNING.get(call.text("name"));
        consumer.commitSync();
        consumer.getOffsetStore().persist(queue(call));
        Thread.sleep(300); // the commit is one-way
        return consumer.committed(queue(call));
    }

    private static List<MessageExt> poll(DefaultLitePullConsumer consumer, Call call) {
        List<MessageExt> found = new ArrayList<>();
        long end = System.currentTimeMillis() + call.number("milliseconds", 30_000);
        while (found.size() < call.number("count", Integer.MAX_VALUE) && System.currentTimeMillis() < end) {
            found.addAll(consumer.poll(500));
        }
        return found;
    }

    private static DefaultLitePullConsumer configured(Call call) {
        DefaultLitePullConsumer consumer = call.configure(new DefaultLitePullConsumer(call.text("group")));
        consumer.setConsumeFromWhere(ConsumeFromWhere.valueOf(call.text("from", "CONSUME_FROM_FIRST_OFFSET")));
        if (call.has("since")) {
            consumer.setConsumeTimestamp(UtilAll.timeMillisToHumanString3(call.large("since", 0)));
        }
        consumer.setAutoCommit(call.flag("auto_commit"));
        return consumer;
    }

    private static MessageQueue queue(Call call) {
        return new MessageQueue(call.text("topic"), call.text("broker"), call.number("queue", 0));
    }
}
