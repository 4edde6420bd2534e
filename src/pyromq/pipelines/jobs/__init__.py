"""Pipelines that run in processes of their own, so that neither a server nor a console waits for Spark.

jobs            PipelineJobs: start, list, stop, remove; whoever starts one may end before it does
job_files       the directory of a job: what is to be done, how far it is, what came of it, its log
job_process     `python -m pyromq.pipelines.jobs.job_process DIR`: the process

<jobs>/<id>/job.json         the order: pipeline, options, who and when, the process
            progress.json    how far it is, with the last samples, from which rates follow
            outcome.json     what came of it, or why it failed
            log.txt          everything that the process and Spark print
            files/           what the pipeline writes, if its options name no other place
"""
