from __future__ import annotations

import pytest

from pyromq.broker.config.broker_config import broker_config, settings_of
from pyromq.broker.config.keys import BROKER_KEYS, BROKER_TABLE, FIXED_KEYS, STORE_KEYS, WITHOUT_EFFECT
from pyromq.errors import ConfigError
from pyromq.protocol.delay_levels import DEFAULT_DELAY_LEVELS
from pyromq.settings.properties_file import parse_properties
from tests.settings.apache_keys import BROKER_CONF


def test_defaults_are_rocketmqs() -> None:
    config = broker_config({})
    assert (config.port, config.fast_port, config.cluster) == (10911, 10909, "DefaultCluster")
    assert (config.permission, config.default_topic_queues, config.registration_period) == (6, 8, 30.0)
    assert config.store.max_message_size == 4 << 20


def test_keys_set_their_fields_with_type_and_unit() -> None:
    config = broker_config(
        {
            "brokerName": "broker-b",
            "listenPort": "20911",
            "autoCreateTopicEnable": "FALSE",
            "flushConsumerOffsetInterval": "2500",
            "namesrvAddr": "10.0.0.1:9876;10.0.0.2:9876",
            "mappedFileSizeCommitLog": "1048576",
            "flushDiskType": "SYNC_FLUSH",
            "storePathRootDir": "/data/store",
        }
    )
    assert (config.name, config.port, config.auto_create_topics) == ("broker-b", 20911, False)
    assert config.offset_save_period == 2.5
    assert config.namesrv == ("10.0.0.1:9876", "10.0.0.2:9876")
    assert config.store.commit_log_file_size == 1 << 20
    assert config.store.flush_disk_type == "SYNC_FLUSH"
    assert str(config.store.root) == "/data/store"


def test_an_unknown_key_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"unknown configuration key brokerNam; the nearest is brokerName"):
        broker_config({"brokerNam": "x"})
    with pytest.raises(ConfigError, match="the nearest is autoCreateTopicEnable"):
        broker_config({"autocreatetopicenable": "true"})


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        broker_config({"nonsense123": "x", "listenPort": "99999", "traceOn": "maybe", "enableLmq": "true"})
    for part in ("nonsense123", "listenPort", "traceOn", "enableLmq=true"):
        assert part in str(caught.value)


def test_lenient_lets_unknown_keys_of_a_file_pass_but_not_those_that_were_typed() -> None:
    assert broker_config({"nonsense123": "x"}, lenient=True).without_effect == ("nonsense123",)
    with pytest.raises(ConfigError, match="nonsense123"):
        broker_config({"nonsense123": "x"}, lenient=True, always_strict={"nonsense123"})


def test_apaches_keys_without_effect_are_collected() -> None:
    config = broker_config({"sendMessageThreadPoolNums": "16", "traceOn": "true", "debugLockEnable": "true"})
    assert config.without_effect == ("debugLockEnable", "sendMessageThreadPoolNums")


def test_keys_of_flush_and_retention() -> None:
    values = {
        "syncFlushTimeout": "2500",
        "cleanResourceInterval": "1000",
        "fileReservedTime": "48",
        "deleteWhen": "04;16",
        "diskMaxUsedSpaceRatio": "60",
        "diskSpaceCleanForciblyRatio": "0.8",
        "diskSpaceWarningLevelRatio": "0.95",
        "cleanFileForciblyEnable": "false",
        "maxStoreBytes": "10737418240",
    }
    config = broker_config(values)
    assert (config.sync_flush_timeout, config.cleaning_period) == (2.5, 1.0)
    store = config.store
    assert (store.file_reserved_hours, store.delete_when, store.disk_max_used_space_ratio) == (48, (4, 16), 60)
    assert (store.disk_space_clean_forcibly_ratio, store.disk_space_warning_level_ratio) == (0.8, 0.95)
    assert (store.clean_file_forcibly, store.max_store_bytes) == (False, 10 << 30)
    assert config.without_effect == ()
    assert settings_of(config).items() >= values.items()


def test_delay_levels_reach_the_store_and_are_shown_as_they_were_given() -> None:
    config = broker_config({"messageDelayLevel": "1s 90s 2m 3h 1d"})
    assert config.store.delay_levels_ms == (1_000, 90_000, 120_000, 10_800_000, 86_400_000)
    assert config.without_effect == ()
    assert settings_of(config)["messageDelayLevel"] == "1s 90s 2m 3h 1d"
    assert settings_of(broker_config({}))["messageDelayLevel"] == DEFAULT_DELAY_LEVELS
    with pytest.raises(ConfigError, match=r"messageDelayLevel must be durations .* not '1s 5 minutes'"):
        broker_config({"messageDelayLevel": "1s 5 minutes"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("deleteWhen", "24"),
        ("deleteWhen", ""),
        ("deleteWhen", "noon"),
        ("diskMaxUsedSpaceRatio", "96"),
        ("diskSpaceWarningLevelRatio", "90"),
        ("diskSpaceCleanForciblyRatio", "much"),
        ("fileReservedTime", "-1"),
        ("maxStoreBytes", "10G"),
    ],
)
def test_values_of_retention_that_make_no_sense_are_errors(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key):
        broker_config({key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("brokerRole", "SLAVE"),
        ("brokerId", "-1"),
        ("enableLmq", "true"),
        ("readOnlyCommitLogStorePaths", "/a,/b"),
        ("storePathCommitLog", "/a,/b"),
        ("flushDiskType", "LATER"),
        ("maxMessageSize", "0"),
        ("namesrvAddr", "localhost"),
        ("brokerName", "broker a"),
        ("listenPort", "2"),
        ("defaultTopicQueueNums", "eight"),
    ],
)
def test_a_value_that_cannot_be_kept_is_refused_by_its_key(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key):
        broker_config({key: value})


def test_what_is_the_default_anyway_may_be_said() -> None:
    broker_config({"brokerRole": "ASYNC_MASTER", "brokerId": "0", "aclEnable": "false"})


def test_trailing_blanks_are_not_part_of_a_value() -> None:
    # Apache keeps them, so that `brokerPermission=4 ` silently stays 6 there.
    assert broker_config(parse_properties("brokerPermission=4  \n")).permission == 4
    assert broker_config({"brokerPermission": " 4 "}).permission == 4


def test_no_key_is_in_two_lists() -> None:
    assert len(BROKER_TABLE.known) == len(BROKER_KEYS) + len(STORE_KEYS) + len(FIXED_KEYS) + len(WITHOUT_EFFECT)
    assert not BROKER_TABLE.known & BROKER_TABLE.old_spellings.keys()


def test_every_key_of_apaches_broker_conf_is_known() -> None:
    current = BROKER_TABLE.renamed(dict.fromkeys(BROKER_CONF, ""))
    assert sorted(current.keys() - BROKER_TABLE.known - BROKER_TABLE.old_spellings.keys()) == []


def test_a_broker_conf_as_it_is_found_everywhere_starts_a_broker() -> None:
    config = broker_config(parse_properties(COPIED_EVERYWHERE))
    assert config.store.commit_log_file_size == 1 << 30
    assert config.store.consume_queue_file_size == 300_000
    assert config.without_effect == (
        "abortFile", "checkTransactionMessageEnable", "clientWorkerThreads", "connectTimeoutMillis",
        "destroyMapedFileIntervalForcibly", "flushCommitLogLeastPages", "redeleteHangedFileInterval",
        "sendMessageThreadPoolNums", "serverPooledByteBufAllocatorEnable", "storeCheckpoint",
        "storePathConsumeQueue", "storePathIndex", "useEpollNativeSelector", "writeBufferHighWaterMark",
    )  # fmt: skip


COPIED_EVERYWHERE = """
# 所属集群名字
brokerClusterName=rocketmq-cluster
brokerName=broker-a
brokerId=0
namesrvAddr=rocketmq-nameserver1:9876;rocketmq-nameserver2:9876
defaultTopicQueueNums=4
autoCreateTopicEnable=true
listenPort=10911
deleteWhen=04
fileReservedTime=120
mapedFileSizeCommitLog=1073741824
mapedFileSizeConsumeQueue=300000
destroyMapedFileIntervalForcibly=120000
redeleteHangedFileInterval=120000
diskMaxUsedSpaceRatio=88
storePathRootDir=/usr/local/rocketmq/store
storePathCommitLog=/usr/local/rocketmq/store/commitlog
storePathConsumeQueue=/usr/local/rocketmq/store/consumequeue
storePathIndex=/usr/local/rocketmq/store/index
storeCheckpoint=/usr/local/rocketmq/store/checkpoint
abortFile=/usr/local/rocketmq/store/abort
maxMessageSize=65536
flushCommitLogLeastPages=4
brokerRole=ASYNC_MASTER
flushDiskType=ASYNC_FLUSH
checkTransactionMessageEnable=false
sendMessageThreadPoolNums=128
useEpollNativeSelector=true
serverPooledByteBufAllocatorEnable=true
writeBufferHighWaterMark=65536
clientWorkerThreads=8
connectTimeoutMillis=3000
"""


def test_settings_read_back_give_the_same_configuration() -> None:
    config = broker_config(
        {
            "brokerName": "b",
            "namesrvAddr": "h:1;h:2",
            "traceOn": "false",
            "shortPollingTimeMills": "1500",
            "brokerIP1": "h",
        }
    )
    shown = {key: value for key, value in settings_of(config).items() if value}
    assert broker_config(shown) == config


def test_a_secret_is_not_shown() -> None:
    assert settings_of(broker_config({"haSecret": "s3cret"}))["haSecret"] == "******"
    assert settings_of(broker_config({}))["haSecret"] == ""


def test_the_public_host_is_the_one_listened_on_unless_said_otherwise() -> None:
    assert broker_config({}, host="10.1.2.3").public_host == "10.1.2.3"
    assert broker_config({"brokerIP1": "mq.example"}, host="0.0.0.0").public_host == "mq.example"
    assert broker_config({}, host="0.0.0.0").public_host == ""
