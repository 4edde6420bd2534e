import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.protocol.heartbeat.MessageModel;

/** Push consumers that live from `start` to `stop`; `take` waits for what they consumed. */
final class Push {
    private static final Map<String, Push> RUNNING = new HashMap<>();

    private final LinkedBlockingQueue<Map<String, Object>> consumed = new LinkedBlockingQueue<>();
    private final DefaultMQPushConsumer consumer;
    private final Call call;
    private DefaultMQProducer replies;

    private Push(Call call) throws Exception {
        this.call = call;
        consumer = call.configure(new DefaultMQPushConsumer(null, call.text("group"), null, Allocations.of(call), call.flag("trace"), null));
        consumer.setConsumeFromWhere(ConsumeFromWhere.valueOf(call.text("from", "CONSUME_FROM_FIRST_OFFSET")));
        if (call.has("since")) {
            consumer.setConsumeTimestamp(UtilAll.timeMillisToHumanString3(call.large("since", 0)));
        }
        consumer.setMessageModel(call.flag("broadcasting") ? MessageModel.BROADCASTING : MessageModel.CLUSTERING);
        consumer.setMaxReconsumeTimes(call.number("max_reconsume", -1));
        consumer.setConsumeMessageBatchMaxSize(call.number("batch", 1));
        consumer.setSuspendCurrentQueueTimeMillis(100);
        consumer.subscribe(call.text("topic"), call.selector());
        if (call.flag("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) this::consumeOrderly);
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) this::consume);
        }
        if (call.has("reply")) {
            replies = call.configure(new DefaultMQProducer(call.text("group") + "-replies"));
            replies.start();
        }
        consumer.start();
    }

    static Object start(Call call) throws Exception {
        RUNNING.put(call.text("name"), new Push(call));
        return null;
    }

    /** Return `count` messages, or as many as come within the time; without `count`, all that are there. */
    static Object take(Call call) throws Exception {
        Push push = RUNNING.get(call.text("name"));
        List<Object> taken = new ArrayList<>();
        long end = System.currentTimeMillis() + call.number("milliseconds", 30_000);
        while (taken.size() < call.number("count", Integer.MAX_VALUE)) {
            Map<String, Object> facts = push.consumed.poll(end - System.currentTimeMillis(), TimeUnit.MILLISECONDS);
            if (facts == null) {
                break;
            }
            taken.add(facts);
        }
        return taken;
    }

    /** Return the queues that it has now. */
    static Object queues(Call call) {
        return Facts.ofQueues(RUNNING.get(call.text("name")).consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl()
            .getProcessQueueTable().keySet());
    }

    /** Give the listener nothing until `resume`. */
    static Object suspend(Call call) {
        RUNNING.get(call.text("name")).consumer.suspend();
        return null;
    }

    static Object resume(Call call) {
        RUNNING.get(call.text("name")).consumer.resume();
        return null;
    }

    /** Return the id by which the other members know it. */
    static Object id(Call call) {
        return RUNNING.get(call.text("name")).consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().getClientId();
    }

    static Object stop(Call call) {
        Push push = RUNNING.remove(call.text("name"));
        push.consumer.shutdown();
        if (push.replies != null) {
            push.replies.shutdown();
        }
        return null;
    }

    private ConsumeConcurrentlyStatus consume(List<MessageExt> messages, ConsumeConcurrentlyContext context) {
        note(messages);
        context.setDelayLevelWhenNextConsume(call.number("retry_level", 0));
        answer(messages);
        return fails(messages) ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
    }

    private ConsumeOrderlyStatus consumeOrderly(List<MessageExt> messages, ConsumeOrderlyContext context) {
        note(messages);
        return fails(messages) ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT : ConsumeOrderlyStatus.SUCCESS;
    }

    /** Keep what is so now: the client changes messages when it sends them back, or gives them once more. */
    private void note(List<MessageExt> messages) {
        messages.forEach(message -> consumed.add(Facts.of(message)));
    }

    /** The listener fails on messages that were consumed fewer times than it was told. */
    private boolean fails(List<MessageExt> messages) {
        return messages.stream().anyMatch(message -> message.getReconsumeTimes() < call.number("failures", 0));
    }

    private void answer(List<MessageExt> messages) {
        if (replies == null) {
            return;
        }
        try {
            for (MessageExt message : messages) {
                replies.send(MessageUtil.createReplyMessage(message, call.text("reply").getBytes()), 10_000);
            }
        } catch (Exception failure) {
            throw new IllegalStateException(failure);
        }
    }
}
