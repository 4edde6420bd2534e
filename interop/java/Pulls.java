import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.TreeSet;
import java.util.function.Consumer;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Consumers that ask for messages themselves. */
@SuppressWarnings("deprecation")
final class Pulls {
    private interface Work {
        Object with(DefaultMQPullConsumer consumer) throws Exception;
    }

    private Pulls() {
    }

    /** Read every queue of a topic from its beginning to its end. */
    static Object all(Call call) throws Exception {
        return withConsumer(call, consumer -> {
            List<MessageExt> found = new ArrayList<>();
            for (MessageQueue queue : new TreeSet<>(consumer.fetchSubscribeMessageQueues(call.text("topic")))) {
                readQueue(consumer, call, queue, found::add);
            }
            return Facts.ofMessages(found);
        });
    }

    /** Return how many messages a topic has, and how many different numbers they bear. */
    static Object count(Call call) throws Exception {
        return withConsumer(call, consumer -> {
            BitSet numbers = new BitSet();
            long[] count = {0};
            for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(call.text("topic"))) {
                readQueue(consumer, call, queue, message -> {
                    numbers.set(Integer.parseInt(message.getUserProperty("number")));
                    count[0]++;
                });
            }
            return List.of(count[0], numbers.cardinality());
        });
    }

    /** Pull once, at one offset. */
    static Object once(Call call) throws Exception {
        return withConsumer(call, consumer -> {
            MessageQueue queue = new MessageQueue(call.text("topic"), call.text("broker"), call.number("queue", 0));
            consumer.maxOffset(queue); // learns where the broker is
            consumer.getDefaultMQPullConsumerImpl().getRebalanceImpl().getmQClientFactory()
                .sendHeartbeatToAllBrokerWithLock(); // learns its version: a filter by SQL wants to know
            PullResult result = consumer.pull(queue, call.selector(), call.large("offset", 0), call.number("count", 32));
            List<?> found = result.getMsgFoundList() == null ? List.of() : Facts.ofMessages(result.getMsgFoundList());
            return List.of(result.getPullStatus().name(), result.getNextBeginOffset(), result.getMinOffset(),
                result.getMaxOffset(), found);
        });
    }

    /** Ask a queue's bounds, the offset at a time and the oldest message's time. */
    static Object offsets(Call call) throws Exception {
        return withConsumer(call, consumer -> {
            MessageQueue queue = new MessageQueue(call.text("topic"), call.text("broker"), call.number("queue", 0));
            return List.of(consumer.minOffset(queue), consumer.maxOffset(queue),
                consumer.searchOffset(queue, call.large("time", 0)), consumer.earliestMsgStoreTime(queue));
        });
    }

    /** Commit an offset and read it back. */
    static Object commit(Call call) throws Exception {
        return withConsumer(call, consumer -> {
            MessageQueue queue = new MessageQueue(call.text("topic"), call.text("broker"), call.number("queue", 0));
            consumer.updateConsumeOffset(queue, call.large("offset", 0));
            consumer.getOffsetStore().persist(queue);
            Thread.sleep(300); // the commit is one-way
            return consumer.fetchConsumeOffset(queue, true);
        });
    }

    /** Poll as a lite pull consumer until `count` messages came. */
    static Object lite(Call call) throws Exception {
        DefaultLitePullConsumer consumer = lite(call, call.flag("auto_commit"));
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

    /** Assign all queues of a topic, go to an offset of each, and poll. */
    static Object liteAssigned(Call call) throws Exception {
        DefaultLitePullConsumer consumer = lite(call, false);
        consumer.start();
        try {
            List<MessageQueue> queues = new ArrayList<>(consumer.fetchMessageQueues(call.text("topic")));
            consumer.assign(queues);
            for (MessageQueue queue : queues) {
                consumer.seek(queue, call.large("offset", 0));
            }
            return Facts.ofMessages(poll(consumer, call));
        } finally {
            consumer.shutdown();
        }
    }

    private static List<MessageExt> poll(DefaultLitePullConsumer consumer, Call call) {
        List<MessageExt> found = new ArrayList<>();
        long end = System.currentTimeMillis() + call.number("milliseconds", 30_000);
        while (found.size() < call.number("count", Integer.MAX_VALUE) && System.currentTimeMillis() < end) {
            found.addAll(consumer.poll(500));
        }
        return found;
    }

    private static DefaultLitePullConsumer lite(Call call, boolean autoCommit) {
        DefaultLitePullConsumer consumer = call.configure(new DefaultLitePullConsumer(call.text("group")));
        consumer.setConsumeFromWhere(ConsumeFromWhere.valueOf(call.text("from", "CONSUME_FROM_FIRST_OFFSET")));
        if (call.has("since")) {
            consumer.setConsumeTimestamp(UtilAll.timeMillisToHumanString3(call.large("since", 0)));
        }
        consumer.setAutoCommit(autoCommit);
        return consumer;
    }

    private static void readQueue(DefaultMQPullConsumer consumer, Call call, MessageQueue queue,
        Consumer<MessageExt> handle) throws Exception {
        long offset = consumer.minOffset(queue);
        long end = consumer.maxOffset(queue);
        while (offset < end) {
            PullResult result = consumer.pull(queue, call.selector(), offset, call.number("at_once", 32));
            if (result.getMsgFoundList() != null) {
                result.getMsgFoundList().forEach(handle);
            }
            if (result.getNextBeginOffset() <= offset) {
                throw new IllegalStateException("stuck at " + offset + " of " + queue + ": " + result);
            }
            offset = result.getNextBeginOffset();
        }
    }

    private static Object withConsumer(Call call, Work work) throws Exception {
        DefaultMQPullConsumer consumer = call.configure(new DefaultMQPullConsumer(call.text("group", "java-pullers")));
        consumer.start();
        try {
            return work.with(consumer);
        } finally {
            consumer.shutdown();
        }
    }
}
