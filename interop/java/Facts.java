import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** What is told of Apache's objects: plain maps that become JSON. */
final class Facts {
    private static final int SHOWN = 2000;

    private Facts() {
    }

    static Map<String, Object> of(SendResult result) {
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("status", result.getSendStatus().name());
        facts.put("message_id", result.getMsgId());
        facts.put("offset_message_id", result.getOffsetMsgId());
        facts.put("broker", result.getMessageQueue().getBrokerName());
        facts.put("queue_id", result.getMessageQueue().getQueueId());
        facts.put("queue_offset", result.getQueueOffset());
        facts.put("transaction_id", result.getTransactionId());
        facts.put("region", result.getRegionId());
        return facts;
    }

    static Map<String, Object> of(MessageExt message) {
        Map<String, Object> facts = new LinkedHashMap<>();
        byte[] body = message.getBody();
        facts.put("topic", message.getTopic());
        facts.put("body", body.length > SHOWN ? null : new String(body, StandardCharsets.UTF_8));
        facts.put("body_length", body.length);
        facts.put("body_crc", UtilAll.crc32(body));
        facts.put("tags", message.getTags());
        facts.put("keys", message.getKeys());
        facts.put("properties", message.getProperties());
        facts.put("flag", message.getFlag());
        facts.put("sys_flag", message.getSysFlag());
        facts.put("broker", message.getBrokerName());
        facts.put("queue_id", message.getQueueId());
        facts.put("queue_offset", message.getQueueOffset());
        facts.put("physical_offset", message.getCommitLogOffset());
        facts.put("unique_key", MessageClientIDSetter.getUniqID(message));
        facts.put("message_id", message.getMsgId());
        facts.put("reconsume_times", message.getReconsumeTimes());
        facts.put("born_timestamp", message.getBornTimestamp());
        facts.put("store_timestamp", message.getStoreTimestamp());
        facts.put("store_host", message.getStoreHost().toString().replaceFirst("^[^/]*/", ""));
        facts.put("transaction_id", message.getTransactionId());
        return facts;
    }

    static List<Object> ofMessages(Iterable<? extends MessageExt> messages) {
        List<Object> facts = new ArrayList<>();
        for (MessageExt message : messages) {
            facts.add(of(message));
        }
        return facts;
    }

    static List<Object> ofQueues(Iterable<MessageQueue> queues) {
        List<Object> facts = new ArrayList<>();
        for (MessageQueue queue : queues) {
            facts.add(List.of(queue.getTopic(), queue.getBrokerName(), queue.getQueueId()));
        }
        return facts;
    }
}
