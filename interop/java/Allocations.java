import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.common.message.MessageQueue;

/** How a member of a group works out its queues; `allocate` names the class of Apache's, other arguments set it up. */
final class Allocations {
    private static final String PACKAGE = "org.apache.rocketmq.client.consumer.rebalance.";

    private Allocations() {
    }

    static AllocateMessageQueueStrategy of(Call call) throws ReflectiveOperationException {
        switch (call.text("allocate", "AllocateMessageQueueAveragely")) {
            case "AllocateMessageQueueByConfig":
                return byConfig(call);
            case "AllocateMessageQueueByMachineRoom":
                AllocateMessageQueueByMachineRoom byRoom = new AllocateMessageQueueByMachineRoom();
                byRoom.setConsumeridcs(Set.of(call.text("room")));
                return byRoom;
            case "AllocateMachineRoomNearby":
                return new AllocateMachineRoomNearby(new AllocateMessageQueueAveragely(), new RoomsInNames());
            default:
                String name = PACKAGE + call.text("allocate", "AllocateMessageQueueAveragely");
                return (AllocateMessageQueueStrategy) Class.forName(name).getDeclaredConstructor().newInstance();
        }
    }

    /** Take the queues of the given numbers, of every broker named. */
    private static AllocateMessageQueueStrategy byConfig(Call call) {
        List<MessageQueue> mine = new ArrayList<>();
        for (String broker : call.text("brokers").split(",")) {
            for (String number : call.text("numbers").split(",")) {
                mine.add(new MessageQueue(call.text("topic"), broker, Integer.parseInt(number)));
            }
        }
        AllocateMessageQueueByConfig byConfig = new AllocateMessageQueueByConfig();
        byConfig.setMessageQueueList(mine);
        return byConfig;
    }

    /** Brokers are named `room@name`, members have the id `address@room-name`. */
    private static final class RoomsInNames implements AllocateMachineRoomNearby.MachineRoomResolver {
        @Override
        public String brokerDeployIn(MessageQueue queue) {
            return queue.getBrokerName().split("@")[0];
        }

        @Override
        public String consumerDeployIn(String member) {
            return member.split("@")[1].split("-")[0];
        }
    }
}
